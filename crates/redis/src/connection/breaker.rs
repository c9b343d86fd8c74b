//! A circuit breaker for the shards of a Cluster: calls skip a shard whose server does not respond,
//! until it responds again. So one unreachable server does not delay work on the others.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::{Error, HolderId, Queue};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connection::Connections;
use crate::jobs::UncertainClaims;
use crate::store::RedisStore;

/// How long one shard of several has for its part of a call.
pub(crate) const SHARD_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait between two probes of an unreachable server.
const PROBE_INTERVAL: Duration = Duration::from_millis(300);

/// Workers whose claims on a shard have failed: their jobs are recovered when the shard responds.
type Claimers = HashSet<(Queue, HolderId)>;

/// The skipped shards, shared with the tasks that probe their servers.
#[derive(Debug, Default)]
struct OpenShards {
    shards: Mutex<HashMap<u16, Claimers>>,
    /// Notified when a shard is used again.
    closed: Notify,
}

/// Tracks which shards do not respond.
#[derive(Debug)]
pub(crate) struct Breaker {
    connections: Arc<Connections>,
    uncertain_claims: Arc<UncertainClaims>,
    open: Arc<OpenShards>,
    /// One task for each unreachable server. They end with the store.
    probes: Mutex<JoinSet<()>>,
}

impl Breaker {
    pub(crate) fn new(connections: Arc<Connections>, uncertain_claims: Arc<UncertainClaims>) -> Self {
        Self { connections, uncertain_claims, open: Arc::default(), probes: Mutex::default() }
    }

    pub(crate) fn is_open(&self, shard: u16) -> bool {
        self.open.lock().contains_key(&shard)
    }

    /// The reachable shards; all of them if none is, so that an outage is noticed.
    pub(crate) fn reachable(&self, mut shards: Vec<u16>) -> Vec<u16> {
        let open = self.open.lock();
        if shards.iter().any(|shard| !open.contains_key(shard)) {
            shards.retain(|shard| !open.contains_key(shard));
        }
        shards
    }

    /// Completes when a skipped shard is used again.
    pub(crate) async fn shard_restored(&self) {
        self.open.closed.notified().await;
    }

    /// Records a failed part of a call. If the server is unavailable, its shards are skipped.
    pub(crate) fn record_failure(&self, shard: u16, error: &Error) {
        let is_one_of_several = self.connections.options().cluster && self.connections.nodes().len() > 1;
        if !is_one_of_several || !error.is_unavailable() || self.is_open(shard) {
            return;
        }
        let node = self.connections.node(shard);
        let shards: Vec<u16> = self.connections.shards_of(&node);
        tracing::warn!(
            "{node} does not respond; its shards are skipped until it does: {}",
            error.full_message()
        );
        let mut open = self.open.lock();
        shards.iter().for_each(|shard| {
            open.entry(*shard).or_default();
        });
        drop(open);
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        while probes.try_join_next().is_some() {}
        probes.spawn(probe(
            self.connections.clone(),
            self.uncertain_claims.clone(),
            self.open.clone(),
            shards,
        ));
    }

    /// Records a failed claim, which may have taken jobs. A reachable shard can recover them at
    /// once.
    pub(crate) fn record_claim_failure(
        &self,
        shard: u16,
        (queue, worker): (&Queue, &HolderId),
        error: &Error,
    ) {
        self.record_failure(shard, error);
        self.mark_uncertain(shard, (queue, worker));
    }

    /// Schedules the recovery of a worker's claims for when the shard responds.
    pub(crate) fn mark_uncertain(&self, shard: u16, (queue, worker): (&Queue, &HolderId)) {
        match self.open.lock().get_mut(&shard) {
            Some(claimers) => {
                claimers.insert((queue.clone(), worker.clone()));
            }
            None => self.uncertain_claims.add(queue, worker),
        }
    }

    /// The result of one shard; a timeout opens the breaker.
    pub(crate) async fn with_timeout<T>(
        &self,
        shard: u16,
        limit: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let result = self.within(shard, limit, call).await;
        if let Err(error) = &result {
            self.record_failure(shard, error);
        }
        result
    }

    /// The same without opening the breaker, for a limit that a healthy server may exceed.
    pub(crate) async fn within<T>(
        &self,
        shard: u16,
        limit: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if !self.connections.options().cluster {
            return call.await;
        }
        timeout(limit, call).await.unwrap_or_else(|_| Err(shard_timeout_error(shard, limit)))
    }
}

impl OpenShards {
    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Claimers>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Probes the server of these shards until it responds, and then uses them again. The command
/// concerns a key, so it also fails while the Cluster is down. The connection's own timeout detects
/// a failover.
async fn probe(
    connections: Arc<Connections>,
    uncertain_claims: Arc<UncertainClaims>,
    open: Arc<OpenShards>,
    shards: Vec<u16>,
) {
    let Some(&first) = shards.first() else { return };
    let command = redis::cmd("EXISTS").arg(connections.keys().anchor_key(first)).take();
    loop {
        sleep(PROBE_INTERVAL).await;
        match connections.query::<i64>(first, &command).await {
            Err(error) if error.is_unavailable() => {}
            _ => break,
        }
    }
    let mut unreachable = open.lock();
    let claimers: Claimers = shards.iter().filter_map(|shard| unreachable.remove(shard)).flatten().collect();
    drop(unreachable);
    tracing::warn!("{} responds again", connections.node(first));
    claimers.iter().for_each(|(queue, worker)| uncertain_claims.add(queue, worker));
    open.closed.notify_waiters();
}

pub(crate) fn shard_timeout_error(shard: u16, limit: Duration) -> Error {
    Error::Unanswered { message: format!("shard {shard} has not answered within {limit:?}"), source: None }
}

/// The replies of shards, and the errors of those that failed.
#[derive(Debug)]
pub(crate) struct ShardReplies<T> {
    pub(crate) replies: Vec<(u16, T)>,
    pub(crate) failures: Vec<(u16, Error)>,
}

impl<T> ShardReplies<T> {
    /// All replies, or the first error. Effects in the other shards remain.
    pub(crate) fn all(self) -> Result<Vec<(u16, T)>, Error> {
        self.failures.into_iter().next().map_or(Ok(self.replies), |(_, error)| Err(error))
    }

    /// The available replies, or an error if every shard failed.
    pub(crate) fn any(self) -> Result<Self, Error> {
        if !self.replies.is_empty() {
            return Ok(self);
        }
        self.all().map(|replies| Self { replies, failures: Vec::new() })
    }
}

impl RedisStore {
    /// Calls every reachable shard concurrently, each with this time limit.
    pub(crate) async fn each_shard<T, F>(&self, limit: Duration, part: impl Fn(u16) -> F) -> ShardReplies<T>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let shards = self.breaker.reachable((0..self.keys.shards()).collect());
        let calls = shards.iter().map(|&shard| self.breaker.with_timeout(shard, limit, part(shard)));
        let mut replies = ShardReplies { replies: Vec::new(), failures: Vec::new() };
        for (&shard, result) in shards.iter().zip(join_all(calls).await) {
            match result {
                Ok(result) => replies.replies.push((shard, result)),
                Err(error) => replies.failures.push((shard, error)),
            }
        }
        let unreachable = (0..self.keys.shards()).filter(|shard| !shards.contains(shard));
        replies.failures.extend(unreachable.map(|shard| (shard, shard_unreachable_error(shard))));
        replies
    }
}

/// The error for a skipped shard.
pub(crate) fn shard_unreachable_error(shard: u16) -> Error {
    Error::Unavailable { message: format!("the server of shard {shard} does not answer"), source: None }
}
