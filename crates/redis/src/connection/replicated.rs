//! Writes that are acknowledged only when replicas have them: each with its WAIT on a connection of its own.
//!
//! WAIT speaks of the writes of its own connection and holds up whatever is sent behind it. So neither the shared
//! connection nor another such write may be on the same one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};
use tokio::sync::Semaphore;

use super::node::{Node, RESPONSE_TIMEOUT};
use crate::connection::reply::int;
use crate::error::is_connection;

/// How long to wait for replicas that are to confirm a write.
pub(super) const REPLICAS_MS: u64 = 2_000;

/// The most writes that wait for replicas of one server at once. Without a replica each of them takes its full time, so
/// that callers beyond this wait a multiple of it.
const MAX_WAITING: usize = 64;

/// Idle connections of one server, and how many more may be used.
pub(super) struct Confirming {
    /// With the number of the shared connection that led to the same server.
    idle: Mutex<Vec<(MultiplexedConnection, u64)>>,
    permits: Semaphore,
}

impl Default for Confirming {
    fn default() -> Self {
        Self { idle: Mutex::default(), permits: Semaphore::new(MAX_WAITING) }
    }
}

impl Node {
    /// Sends a write and waits for replicas that confirm it. Returns its answer, and how many have.
    pub(super) async fn confirmed(&self, write: &Cmd, replicas: u32) -> Result<(Value, u32), RedisError> {
        let closed = |_| RedisError::from((ErrorKind::Io, "the store is closed"));
        let _permit = self.confirming.permits.acquire().await.map_err(closed)?;
        let (mut connection, number) = match self.idle_confirming() {
            Some(idle) => idle,
            None => self.connect_own(Some(RESPONSE_TIMEOUT)).await?,
        };
        let mut both = Pipeline::with_capacity(2);
        both.add_command(write.clone());
        both.cmd("WAIT").arg(replicas).arg(REPLICAS_MS);
        let answers = connection.req_packed_commands(&both, 0, 2).await;
        match &answers {
            Err(error) if is_connection(error) => self.forget(number),
            _ => lock(&self.confirming.idle).push((connection, number)),
        }
        let mut answers = answers?.into_iter().map(Value::extract_error);
        let odd = || RedisError::from((ErrorKind::UnexpectedReturnType, "WAIT was not answered"));
        let answer = answers.next().ok_or_else(odd)??;
        let reached = answers.next().ok_or_else(odd)??;
        let reached = int(&reached).and_then(|reached| u32::try_from(reached).ok()).ok_or_else(odd)?;
        Ok((answer, reached))
    }

    fn idle_confirming(&self) -> Option<(MultiplexedConnection, u64)> {
        let mut idle = lock(&self.confirming.idle);
        while let Some((connection, number)) = idle.pop() {
            if self.is_current(number) {
                return Some((connection, number));
            }
        }
        None
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
