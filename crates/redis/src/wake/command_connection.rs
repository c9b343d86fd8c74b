//! The connection for commands: to one server, or to all of a Cluster.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, ConnectionInfo, Pipeline, RedisError, Value};
use tidemill_core::Error;
use tokio::sync::Mutex;

use crate::connection::{Node, Subscriptions, servers, silent};
use crate::error::{classify, is_connection};
use crate::options::Options;

/// A hint that takes longer is not worth waiting for.
const ANSWER: Duration = Duration::from_secs(3);

/// The way for commands.
pub(super) enum Commands {
    Server(Arc<Node>),
    Cluster(Box<Cluster>),
}

pub(super) struct Cluster {
    client: ClusterClient,
    open: Mutex<Option<ClusterConnection>>,
}

impl Commands {
    pub(super) fn new(options: &Options) -> Result<Self, Error> {
        if !options.cluster {
            return Ok(Self::Server(Node::of(options)?));
        }
        let mut builder = ClusterClientBuilder::new([options.info.clone()])
            .connection_timeout(ANSWER)
            .response_timeout(ANSWER);
        if let Some(certificates) = &options.certificates {
            builder = builder.certs(certificates.clone());
        }
        let client = builder.build().map_err(|error| classify("preparing for a Cluster", error))?;
        Ok(Self::Cluster(Box::new(Cluster { client, open: Mutex::default() })))
    }

    /// Sends one command to the server that has its key.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        match self {
            Self::Server(node) => node.command(command).await,
            Self::Cluster(cluster) => cluster.send(command).await,
        }
    }

    /// Sends commands, in one trip where one server has everything.
    pub(super) async fn send_all(&self, commands: Vec<Cmd>) -> Result<(), RedisError> {
        match self {
            Self::Server(node) => {
                let mut pipeline = Pipeline::with_capacity(commands.len());
                for command in commands {
                    pipeline.add_command(command);
                }
                node.pipeline(&pipeline).await.map(drop)
            }
            Self::Cluster(_) => {
                for command in &commands {
                    self.send(command).await?;
                }
                Ok(())
            }
        }
    }
}

impl Commands {
    /// Opens a connection for subscriptions: of a Cluster, to any server, because each hears every message.
    pub(super) async fn subscriptions(&self, options: &Options) -> Result<Subscriptions, RedisError> {
        if let Self::Server(node) = self {
            return Subscriptions::open(node).await;
        }
        match subscribe_to(options.info.clone()).await {
            Err(error) => match self.any_server(options).await {
                Some(info) => subscribe_to(info).await,
                None => Err(error),
            },
            opened => opened,
        }
    }

    /// Any server of the Cluster, as far as one of them can be asked.
    async fn any_server(&self, options: &Options) -> Option<ConnectionInfo> {
        let answer = self.send(redis::cmd("CLUSTER").arg("SLOTS")).await.ok()?;
        let mut servers = servers(options, answer);
        (!servers.is_empty()).then(|| servers.swap_remove(fastrand::usize(..servers.len())))
    }
}

async fn subscribe_to(info: ConnectionInfo) -> Result<Subscriptions, RedisError> {
    let node = Node::new(info).map_err(|_| silent())?;
    Subscriptions::open(&node).await
}

impl Cluster {
    async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut connection = self.connection().await?;
        let answer = connection.req_packed_command(command).await.and_then(Value::extract_error);
        if answer.as_ref().is_err_and(is_connection) {
            *self.open.lock().await = None;
        }
        answer
    }

    async fn connection(&self) -> Result<ClusterConnection, RedisError> {
        let mut open = self.open.lock().await;
        if let Some(connection) = &*open {
            return Ok(connection.clone());
        }
        let connection = self.client.get_async_connection().await?;
        Ok(open.insert(connection).clone())
    }
}
