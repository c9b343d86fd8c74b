//! Connections for blocking reads, each used by one read at a time.
//!
//! A blocking read must be answered or its connection thrown away: an answer nobody waits for is a job that
//! is lost (list) or stranded (stream). So the driver has no response timeout here, and stopping early means
//! asking the server to unblock and then still taking the answer.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, RedisError, Value};

use super::{Node, silent};
use crate::error::{is_connection, is_denied};

/// How long beyond its block time a read may take before the server counts as gone.
const GRACE: Duration = Duration::from_secs(3);

/// How long a read that was asked to end has for it before it is asked again.
const AGAIN: Duration = Duration::from_millis(20);

/// Idle connections of one server.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<Blocking>>);

impl Pool {
    fn pop(&self) -> Option<Blocking> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn push(&self, idle: Blocking) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(idle);
    }
}

/// A connection of its own, and the number under which the server knows it; none if it may not be asked for.
pub(crate) struct Blocking {
    connection: MultiplexedConnection,
    client: Option<i64>,
    /// When the server has another shared connection, this one may lead to a server that is not the master any more.
    number: u64,
}

impl Blocking {
    /// Takes an idle connection to `node`, or opens one.
    pub(crate) async fn take(node: &Node) -> Result<Self, RedisError> {
        while let Some(idle) = node.blocking.pop() {
            if node.is_current(idle.number) {
                return Ok(idle);
            }
        }
        let (mut connection, number) = node.connect_own(None).await?;
        let ask = redis::cmd("CLIENT").arg("ID").take();
        let client = tokio::time::timeout(GRACE, ask.query_async(&mut connection)).await;
        let client = match client.map_err(|_| silent())? {
            Err(error) if is_denied(&error) => None,
            client => Some(client?),
        };
        Ok(Self { connection, client, number })
    }

    /// Sends a command that blocks for up to `block`; asks the server to give up when `interrupt` completes.
    /// The connection goes back to its pool unless it failed.
    pub(crate) async fn read(
        mut self,
        node: &Arc<Node>,
        (command, block): (&Cmd, Duration),
        interrupt: impl Future<Output = ()>,
    ) -> Result<Value, RedisError> {
        let client = self.client;
        let answer = {
            let limit = block + GRACE;
            let read = pin!(tokio::time::timeout(limit, self.connection.req_packed_command(command)));
            match select(read, pin!(interrupt)).await {
                Either::Left((answer, _)) => answer,
                Either::Right(((), read)) => unblock_until(node, client, read).await,
            }
        };
        let answer = answer.map_err(|_| silent()).flatten().and_then(Value::extract_error);
        // A server that has not noticed the end of the connection would still give it jobs.
        if let Some(client) = client.filter(|_| answer.as_ref().is_err_and(is_connection)) {
            let _ = tokio::time::timeout(AGAIN * 10, unblock(node, client)).await;
        }
        match &answer {
            // The shared connection of an idle worker would not be noticed to be broken.
            Err(error) if is_connection(error) => node.forget(self.number),
            // An error of the server itself leaves the connection as good as before.
            _ => node.blocking.push(self),
        }
        answer
    }
}

/// Asks to end a read until it has ended: the first request may overtake the read itself. Without the right to ask
/// it ends after its block time.
async fn unblock_until<T>(node: &Node, client: Option<i64>, read: impl Future<Output = T> + Unpin) -> T {
    let mut read = read;
    loop {
        match client {
            Some(client) if unblock(node, client).await => {}
            _ => return read.await,
        }
        match select(&mut read, pin!(tokio::time::sleep(AGAIN))).await {
            Either::Left((answer, _)) => return answer,
            Either::Right(_) => {}
        }
    }
}

/// Asks to end a blocked read. Says whether it makes sense to ask again.
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
