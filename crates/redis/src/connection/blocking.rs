//! Connections for blocking reads, each used by one read at a time.
//!
//! A blocking read must get its reply, or its connection must be closed: a reply without a reader
//! is a job that is lost (list) or stranded (stream). So the driver has no response timeout here.
//! Stopping early means asking the server to unblock and still reading the reply.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, RedisError, Value};

use super::{Node, no_response};
use crate::error::{is_connection, is_denied};

/// How long after its block time a read may take before the server counts as unreachable.
const REPLY_GRACE: Duration = Duration::from_secs(3);

/// How long an unblocked read has to return before it is unblocked again.
const UNBLOCK_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Idle connections of one server.
#[derive(Default)]
pub(super) struct BlockingPool(Mutex<Vec<BlockingConnection>>);

impl BlockingPool {
    fn pop(&self) -> Option<BlockingConnection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn push(&self, idle: BlockingConnection) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(idle);
    }
}

/// A dedicated connection and its client id, which is absent if CLIENT ID is denied.
pub(crate) struct BlockingConnection {
    connection: MultiplexedConnection,
    client_id: Option<i64>,
    /// The shared connection it belongs to. After a reconnect this one may lead to a former master.
    generation: u64,
}

impl BlockingConnection {
    /// Takes an idle connection to `node`, or opens one.
    pub(crate) async fn acquire(node: &Node) -> Result<Self, RedisError> {
        while let Some(idle) = node.blocking.pop() {
            if node.is_current(idle.generation) {
                return Ok(idle);
            }
        }
        let (mut connection, generation) = node.connect_dedicated(None).await?;
        let command = redis::cmd("CLIENT").arg("ID").take();
        let client = tokio::time::timeout(REPLY_GRACE, command.query_async(&mut connection)).await;
        let client = match client.map_err(|_| no_response())? {
            Err(error) if is_denied(&error) => None,
            client => Some(client?),
        };
        Ok(Self { connection, client_id: client, generation })
    }

    /// Sends a command that blocks for up to `block`; unblocks it when `interrupt` completes. The
    /// connection returns to its pool unless it failed.
    pub(crate) async fn read(
        mut self,
        node: &Arc<Node>,
        (command, block): (&Cmd, Duration),
        interrupt: impl Future<Output = ()>,
    ) -> Result<Value, RedisError> {
        let client = self.client_id;
        let reply = {
            let limit = block + REPLY_GRACE;
            let read = pin!(tokio::time::timeout(limit, self.connection.req_packed_command(command)));
            match select(read, pin!(interrupt)).await {
                Either::Left((reply, _)) => reply,
                Either::Right(((), read)) => unblock_until(node, client, read).await,
            }
        };
        let reply = reply.map_err(|_| no_response()).flatten().and_then(Value::extract_error);
        // A server that has not noticed the closed connection would still send it jobs.
        if let Some(client) = client.filter(|_| reply.as_ref().is_err_and(is_connection)) {
            let _ = tokio::time::timeout(UNBLOCK_RETRY_DELAY * 10, unblock(node, client)).await;
        }
        match &reply {
            // An idle worker would not notice that its shared connection is broken.
            Err(error) if is_connection(error) => node.discard_connection(self.generation),
            // An error of the server itself leaves the connection usable.
            _ => node.blocking.push(self),
        }
        reply
    }
}

/// Unblocks a read until it has returned: the first CLIENT UNBLOCK may arrive before the read
/// itself. Without that permission the read ends after its block time.
async fn unblock_until<T>(node: &Node, client: Option<i64>, read: impl Future<Output = T> + Unpin) -> T {
    let mut read = read;
    loop {
        match client {
            Some(client) if unblock(node, client).await => {}
            _ => return read.await,
        }
        match select(&mut read, pin!(tokio::time::sleep(UNBLOCK_RETRY_DELAY))).await {
            Either::Left((reply, _)) => return reply,
            Either::Right(_) => {}
        }
    }
}

/// Unblocks a read. Returns whether to try again.
async fn unblock(node: &Node, client: i64) -> bool {
    let command = redis::cmd("CLIENT").arg("UNBLOCK").arg(client).take();
    match node.command(&command).await {
        Ok(_) => true,
        Err(error) => {
            tracing::debug!(%error, "cannot unblock a read");
            !is_denied(&error)
        }
    }
}
