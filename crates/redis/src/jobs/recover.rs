//! Recovering claims that a worker holds and does not know of: pending entries of a stream; locked
//! list jobs, and copies of unanswered pops.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use redis::Pipeline;
use tidemill_core::store::{Claimed, RecoverParams};
use tidemill_core::{Error, Guarantee, HolderId, JobId, Lease, Queue};

use super::claim::ShardClaim;
use super::list_pops::pop_id;
use super::stream::claimed;
use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::reply::{HELD_SUFFIX, RunningEntry, array, bytes, entry_id, read_group};
use crate::error::{classify, is_no_group};
use crate::store::RedisStore;

/// Maximum entries of one call. The next call finds the rest.
const MAX_RECOVERED: usize = 1_000;

/// Workers whose claim failed in some shards and returned jobs of others, by queue.
#[derive(Debug, Default)]
pub(crate) struct UncertainClaims(Mutex<HashSet<(Queue, HolderId)>>);

impl UncertainClaims {
    pub(crate) fn add(&self, queue: &Queue, worker: &HolderId) {
        self.lock().insert((queue.clone(), worker.clone()));
    }

    pub(crate) fn contains(&self, queue: &Queue, worker: &HolderId) -> bool {
        let claims = self.lock();
        // Nearly always empty, and checked after every claim.
        !claims.is_empty() && claims.contains(&(queue.clone(), worker.clone()))
    }

    fn remove(&self, queue: &Queue, worker: &HolderId) {
        self.lock().remove(&(queue.clone(), worker.clone()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<(Queue, HolderId)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The jobs of one shard, and the pops whose copies they were.
#[derive(Default)]
struct RecoveredJobs {
    jobs: Vec<Claimed>,
    pops: Vec<u64>,
}

impl RedisStore {
    pub(crate) async fn recover_claims(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.uncertain_claims.remove(recover.queue, recover.worker);
        let parts = self.each_shard(SHARD_TIMEOUT, |shard| self.recover_shard(shard, &recover)).await;
        for (shard, _) in &parts.failures {
            self.breaker.mark_uncertain(*shard, (recover.queue, recover.worker));
        }
        let mut jobs = Vec::new();
        for (shard, found) in parts.any()?.replies {
            jobs.extend(found.jobs);
            let list = (recover.queue.clone(), shard, recover.worker.clone());
            self.list_pops.recovered(&list, &found.pops);
        }
        jobs.retain(|claimed| !recover.known_leases.contains(&claimed.lease));
        Ok(jobs)
    }

    async fn recover_shard(&self, shard: u16, recover: &RecoverParams<'_>) -> Result<RecoveredJobs, Error> {
        match recover.queue.guarantee {
            Guarantee::AtLeastOnce => {
                Ok(RecoveredJobs { jobs: self.recover_entries(shard, recover).await?, pops: Vec::new() })
            }
            Guarantee::AtMostOnce => self.recover_list(shard, recover).await,
        }
    }

    /// Pending entries of the worker's consumers, page by page.
    async fn recover_entries(&self, shard: u16, recover: &RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        let mut jobs = Vec::new();
        for (suffix, started) in [("", true), (HELD_SUFFIX, false)] {
            let consumer = format!("{}{suffix}", recover.worker);
            let mut from = "0".to_owned();
            while jobs.len() < MAX_RECOVERED {
                let mut read = redis::cmd("XREADGROUP");
                read.arg("GROUP")
                    .arg(self.group(recover.queue))
                    .arg(&consumer)
                    .arg("COUNT")
                    .arg(MAX_RECOVERED);
                read.arg("STREAMS").arg(self.keys.target(shard, recover.queue)).arg(&from);
                let entries = match self.connections.send(shard, &read).await {
                    Err(error) if is_no_group(&error) => return Ok(Vec::new()),
                    reply => read_group(reply.map_err(|error| classify("XREADGROUP", error))?)?,
                };
                let Some(last) = entries.last() else { break };
                from = entry_id(last.token);
                let page = entries.into_iter().map(|entry| claimed((recover.queue, shard), entry, started));
                jobs.extend(page.filter(|claimed| !recover.known_leases.contains(&claimed.lease)));
            }
        }
        Ok(jobs)
    }

    async fn recover_list(&self, shard: u16, recover: &RecoverParams<'_>) -> Result<RecoveredJobs, Error> {
        let mut found = RecoveredJobs { jobs: self.recover_locks(shard, recover).await?, pops: Vec::new() };
        let RecoverParams { queue, worker, lease, .. } = *recover;
        let claim = ShardClaim { queue, worker, lease, shard, number: 0, starting: usize::MAX, held: 0 };
        for number in self.list_pops.unanswered(&claim.worker_list()) {
            let copies = redis::cmd("LRANGE").arg(claim.taken_key(&self.keys, number)).arg(0).arg(-1).take();
            let copies =
                self.connections.send(shard, &copies).await.map_err(|error| classify("LRANGE", error))?;
            let copies: Vec<_> = array(copies).unwrap_or_default().into_iter().filter_map(bytes).collect();
            if !copies.is_empty() {
                found.jobs.extend(self.lock_popped(claim, number, &copies).await?);
                found.pops.push(number);
            }
        }
        Ok(found)
    }

    /// Jobs that the worker has locked.
    async fn recover_locks(&self, shard: u16, recover: &RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        let (mut jobs, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let running = self.keys.running(shard, recover.queue);
            let scan = redis::cmd("HSCAN").arg(running).arg(&cursor).arg("COUNT").arg(MAX_RECOVERED).take();
            let (next, page): (String, Vec<Vec<u8>>) = self.connections.query(shard, &scan).await?;
            jobs.extend(page.chunks_exact(2).filter_map(|pair| locked((shard, recover), &pair[0], &pair[1])));
            if next == "0" {
                return Ok(jobs);
            }
            cursor = next;
        }
    }

    /// Removes the copies of a worker's pops.
    pub(super) async fn remove_copies(&self, worker: &HolderId) -> Result<(), Error> {
        for ((queue, shard, _), numbers) in self.list_pops.forget(worker) {
            let mut batch = Pipeline::new();
            for id in numbers.iter().map(|number| pop_id(worker, *number)) {
                batch.cmd("DEL").arg(self.keys.taken(shard, &queue, &id));
                batch.cmd("ZREM").arg(self.keys.takers(shard, &queue)).arg(id);
            }
            self.connections.pipeline(shard, &batch).await.map_err(|error| classify("ZREM", error))?;
        }
        Ok(())
    }
}

/// The claim of a running entry, if the worker holds it without knowing.
fn locked((shard, recover): (u16, &RecoverParams<'_>), job: &[u8], running: &[u8]) -> Option<Claimed> {
    let (job, running) = (JobId::new(std::str::from_utf8(job).ok()?).ok()?, RunningEntry::parse(running)?);
    let lease = Lease { queue: recover.queue.clone(), job, shard, token: running.token };
    let is_unknown = running.worker == recover.worker.as_str() && !recover.known_leases.contains(&lease);
    is_unknown.then(|| Claimed::read(running.envelope, true, |_| lease))
}
