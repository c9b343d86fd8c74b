//! The connection for commands: to one server, or to all servers of a Cluster.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, ConnectionInfo, Pipeline, RedisError, Value};
use tidemill_core::Error;
use tokio::sync::Mutex;

use crate::connection::{Node, PubSubConnection, no_response, server_addresses};
use crate::error::{classify, is_connection};
use crate::options::RedisOptions;

/// Timeout of a command: a hint is not worth waiting longer.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(3);

/// A connection for commands.
pub(super) enum CommandConnection {
    Server(Arc<Node>),
    Cluster(Box<ClusterCommands>),
}

pub(super) struct ClusterCommands {
    client: ClusterClient,
    open: Mutex<Option<ClusterConnection>>,
}

impl CommandConnection {
    pub(super) fn new(options: &RedisOptions) -> Result<Self, Error> {
        if !options.cluster {
            return Ok(Self::Server(Node::from_options(options)?));
        }
        let mut builder = ClusterClientBuilder::new([options.info.clone()])
            .connection_timeout(COMMAND_TIMEOUT)
            .response_timeout(COMMAND_TIMEOUT);
        if let Some(certificates) = &options.certificates {
            builder = builder.certs(certificates.clone());
        }
        let client = builder.build().map_err(|error| classify("preparing for a Cluster", error))?;
        Ok(Self::Cluster(Box::new(ClusterCommands { client, open: Mutex::default() })))
    }

    /// Sends one command to the server that has its key.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        match self {
            Self::Server(node) => node.command(command).await,
            Self::Cluster(cluster) => cluster.send(command).await,
        }
    }

    /// Sends commands, in one round trip to a single server.
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

impl CommandConnection {
    /// Opens a connection for subscriptions; in a Cluster to any server, since each delivers all
    /// messages.
    pub(super) async fn subscriptions(&self, options: &RedisOptions) -> Result<PubSubConnection, RedisError> {
        if let Self::Server(node) = self {
            return PubSubConnection::open(node).await;
        }
        match subscribe_to(options.info.clone()).await {
            Err(error) => match self.any_server(options).await {
                Some(info) => subscribe_to(info).await,
                None => Err(error),
            },
            opened => opened,
        }
    }

    /// Any server of the Cluster, if one of them replies.
    async fn any_server(&self, options: &RedisOptions) -> Option<ConnectionInfo> {
        let reply = self.send(redis::cmd("CLUSTER").arg("SLOTS")).await.ok()?;
        let mut servers = server_addresses(options, reply);
        (!servers.is_empty()).then(|| servers.swap_remove(fastrand::usize(..servers.len())))
    }
}

async fn subscribe_to(info: ConnectionInfo) -> Result<PubSubConnection, RedisError> {
    let node = Node::new(info).map_err(|_| no_response())?;
    PubSubConnection::open(&node).await
}

impl ClusterCommands {
    async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut connection = self.connection().await?;
        let reply = connection.req_packed_command(command).await.and_then(Value::extract_error);
        if reply.as_ref().is_err_and(is_connection) {
            *self.open.lock().await = None;
        }
        reply
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
