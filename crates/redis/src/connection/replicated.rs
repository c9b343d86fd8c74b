//! Writes that succeed only after replicas have confirmed them: each with its WAIT on its own
//! connection.
//!
//! WAIT covers the writes of its own connection and delays every command after it. So such a write
//! cannot share a connection with others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};
use tokio::sync::Semaphore;

use super::node::{Node, RESPONSE_TIMEOUT};
use crate::connection::reply::int;
use crate::error::is_connection;

/// How long to wait for the confirmation of replicas.
pub(super) const REPLICA_TIMEOUT_MS: u64 = 2_000;

/// Maximum number of writes that wait for replicas of one server. Without a replica each takes its
/// full time, so further callers wait a multiple of it.
const MAX_WAITING_WRITES: usize = 64;

/// Idle connections of one server, and permits for more.
pub(super) struct ReplicatedPool {
    /// With the generation of the shared connection.
    idle: Mutex<Vec<(MultiplexedConnection, u64)>>,
    permits: Semaphore,
}

impl Default for ReplicatedPool {
    fn default() -> Self {
        Self { idle: Mutex::default(), permits: Semaphore::new(MAX_WAITING_WRITES) }
    }
}

impl Node {
    /// Sends a write and waits for replicas. Returns its reply, and how many replicas confirmed it.
    pub(super) async fn write_replicated(
        &self,
        write: &Cmd,
        replicas: u32,
    ) -> Result<(Value, u32), RedisError> {
        let closed = |_| RedisError::from((ErrorKind::Io, "the store is closed"));
        let _permit = self.replicated.permits.acquire().await.map_err(closed)?;
        let (mut connection, generation) = match self.idle_replicated() {
            Some(idle) => idle,
            None => self.connect_dedicated(Some(RESPONSE_TIMEOUT)).await?,
        };
        let mut both = Pipeline::with_capacity(2);
        both.add_command(write.clone());
        both.cmd("WAIT").arg(replicas).arg(REPLICA_TIMEOUT_MS);
        let replies = connection.req_packed_commands(&both, 0, 2).await;
        match &replies {
            Err(error) if is_connection(error) => self.discard_connection(generation),
            _ => lock(&self.replicated.idle).push((connection, generation)),
        }
        let mut replies = replies?.into_iter().map(Value::extract_error);
        let unexpected = || RedisError::from((ErrorKind::UnexpectedReturnType, "WAIT was not answered"));
        let reply = replies.next().ok_or_else(unexpected)??;
        let confirmed_by = replies.next().ok_or_else(unexpected)??;
        let confirmed_by = int(&confirmed_by)
            .and_then(|confirmed_by| u32::try_from(confirmed_by).ok())
            .ok_or_else(unexpected)?;
        Ok((reply, confirmed_by))
    }

    fn idle_replicated(&self) -> Option<(MultiplexedConnection, u64)> {
        let mut idle = lock(&self.replicated.idle);
        while let Some((connection, generation)) = idle.pop() {
            if self.is_current(generation) {
                return Some((connection, generation));
            }
        }
        None
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
