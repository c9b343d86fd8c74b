//! A circuit breaker for the shards of a Cluster: a shard whose server does not answer is left out of calls that would wait for
//! it, until the server answers again. So one silent server holds up nothing that concerns the others.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::{Error, HolderId, Queue};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connection::Link;
use crate::jobs::Doubts;
use crate::store::RedisStore;

/// How long one shard of several has for its part of a call: the others do not wait longer for it.
pub(crate) const SHARD_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a server that does not answer is left alone before it is asked whether it is back.
const PROBE_PAUSE: Duration = Duration::from_millis(300);

/// Whose claims on a shard have failed: what these have taken is to be recovered when the shard answers.
type Claimers = HashSet<(Queue, HolderId)>;

/// The shards that are left out, shared with the tasks that wait for their servers.
#[derive(Debug, Default)]
struct OpenShards {
    shards: Mutex<HashMap<u16, Claimers>>,
    /// Notified when a shard is asked again.
    closed: Notify,
}

/// Knows which shards do not answer.
#[derive(Debug)]
pub(crate) struct Breaker {
    link: Arc<Link>,
    doubts: Arc<Doubts>,
    open: Arc<OpenShards>,
    /// One for each server that does not answer. They end with the store.
    probes: Mutex<JoinSet<()>>,
}

impl Breaker {
    pub(crate) fn new(link: Arc<Link>, doubts: Arc<Doubts>) -> Self {
        Self { link, doubts, open: Arc::default(), probes: Mutex::default() }
    }

    pub(crate) fn is_open(&self, shard: u16) -> bool {
        self.open.lock().contains_key(&shard)
    }

    /// The shards whose servers answer, as far as is known; all of them if none does, so that an outage is noticed.
    pub(crate) fn reachable(&self, mut shards: Vec<u16>) -> Vec<u16> {
        let open = self.open.lock();
        if shards.iter().any(|shard| !open.contains_key(shard)) {
            shards.retain(|shard| !open.contains_key(shard));
        }
        shards
    }

    /// Completes when a shard that was left out is asked again.
    pub(crate) async fn closed(&self) {
        self.open.closed.notified().await;
    }

    /// A part of a call has failed. If the server is to blame, its shards are left out until it answers.
    pub(crate) fn failed(&self, shard: u16, error: &Error) {
        let is_one_of_several = self.link.options().cluster && self.link.nodes().len() > 1;
        if !is_one_of_several || !error.is_unavailable() || self.is_open(shard) {
            return;
        }
        let node = self.link.node(shard);
        let shards: Vec<u16> = self.link.shards_of(&node);
        tracing::warn!(
            "{node} does not answer, its shards are left out until it does: {}",
            error.full_message()
        );
        let mut open = self.open.lock();
        shards.iter().for_each(|shard| {
            open.entry(*shard).or_default();
        });
        drop(open);
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        while probes.try_join_next().is_some() {}
        probes.spawn(probe(self.link.clone(), self.doubts.clone(), self.open.clone(), shards));
    }

    /// A claim on a shard has failed, and may have taken jobs. A shard that answers can be asked for them at once.
    pub(crate) fn claim_failed(&self, shard: u16, (queue, worker): (&Queue, &HolderId), error: &Error) {
        self.failed(shard, error);
        self.remember(shard, (queue, worker));
    }

    /// What a worker's claims may have taken from a shard is to be recovered when the shard answers.
    pub(crate) fn remember(&self, shard: u16, (queue, worker): (&Queue, &HolderId)) {
        match self.open.lock().get_mut(&shard) {
            Some(claimers) => {
                claimers.insert((queue.clone(), worker.clone()));
            }
            None => self.doubts.note(queue, worker),
        }
    }

    /// The answer of one shard, if it comes in time.
    pub(crate) async fn bounded<T>(
        &self,
        shard: u16,
        limit: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let answer = self.in_time(shard, limit, call).await;
        if let Err(error) = &answer {
            self.failed(shard, error);
        }
        answer
    }

    /// The same without consequences for the shard, for a limit that a healthy server may miss.
    pub(crate) async fn in_time<T>(
        &self,
        shard: u16,
        limit: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if !self.link.options().cluster {
            return call.await;
        }
        timeout(limit, call).await.unwrap_or_else(|_| Err(silent(shard, limit)))
    }
}

impl OpenShards {
    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Claimers>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the server of these shards answers, and has them asked again. By a command about a key, which also fails while the
/// Cluster is down; the link's own deadline applies, so that a failover is noticed.
async fn probe(link: Arc<Link>, doubts: Arc<Doubts>, open: Arc<OpenShards>, shards: Vec<u16>) {
    let Some(&first) = shards.first() else { return };
    let ask = redis::cmd("EXISTS").arg(link.keys().anchor(first)).take();
    loop {
        sleep(PROBE_PAUSE).await;
        match link.query::<i64>(first, &ask).await {
            Err(error) if error.is_unavailable() => {}
            _ => break,
        }
    }
    let mut left_out = open.lock();
    let claimers: Claimers = shards.iter().filter_map(|shard| left_out.remove(shard)).flatten().collect();
    drop(left_out);
    tracing::warn!("{} answers again", link.node(first));
    claimers.iter().for_each(|(queue, worker)| doubts.note(queue, worker));
    open.closed.notify_waiters();
}

pub(crate) fn silent(shard: u16, limit: Duration) -> Error {
    Error::Unanswered { message: format!("shard {shard} has not answered within {limit:?}"), source: None }
}

/// What the shards that answered have said, and why another one failed.
#[derive(Debug)]
pub(crate) struct Parts<T> {
    pub(crate) answers: Vec<(u16, T)>,
    pub(crate) failures: Vec<(u16, Error)>,
}

impl<T> Parts<T> {
    /// The answers, unless a shard failed: for a caller who needs all. What took place in the others has taken place.
    pub(crate) fn all(self) -> Result<Vec<(u16, T)>, Error> {
        self.failures.into_iter().next().map_or(Ok(self.answers), |(_, error)| Err(error))
    }

    /// The answers there are, unless every shard failed.
    pub(crate) fn any(self) -> Result<Self, Error> {
        if !self.answers.is_empty() {
            return Ok(self);
        }
        self.all().map(|answers| Self { answers, failures: Vec::new() })
    }
}

impl RedisStore {
    /// Asks every shard at once. Each has `limit` for its part; a shard that is known not to answer is not asked.
    pub(crate) async fn each_shard<T, F>(&self, limit: Duration, part: impl Fn(u16) -> F) -> Parts<T>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let asked = self.breaker.reachable((0..self.keys.shards()).collect());
        let calls = asked.iter().map(|&shard| self.breaker.bounded(shard, limit, part(shard)));
        let mut parts = Parts { answers: Vec::new(), failures: Vec::new() };
        for (&shard, answer) in asked.iter().zip(join_all(calls).await) {
            match answer {
                Ok(answer) => parts.answers.push((shard, answer)),
                Err(error) => parts.failures.push((shard, error)),
            }
        }
        let left_out = (0..self.keys.shards()).filter(|shard| !asked.contains(shard));
        parts.failures.extend(left_out.map(|shard| (shard, left_out_error(shard))));
        parts
    }
}

/// Why a shard was not asked.
pub(crate) fn left_out_error(shard: u16) -> Error {
    Error::Unavailable { message: format!("the server of shard {shard} does not answer"), source: None }
}
