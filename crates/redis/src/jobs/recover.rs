//! Finding what a worker holds and does not know of: its pending entries of a stream; of a list, the traces of its locks, and
//! the copies of pops whose answers were lost.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use redis::Pipeline;
use tidemill_core::store::{Claimed, RecoverParams};
use tidemill_core::{Error, Guarantee, HolderId, JobId, Lease, Queue};

use super::claim::Share;
use super::list_pops::mark;
use super::stream::claimed;
use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::reply::{HELD, Trace, array, bytes, entry_id, read_group};
use crate::error::{classify, is_no_group};
use crate::store::RedisStore;

/// How many entries one look returns. What is left is found by the next look.
const MAX_RECOVERED: usize = 1_000;

/// Workers some of whose shards failed while others gave jobs, by queue.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Mutex<HashSet<(Queue, HolderId)>>);

impl Doubts {
    pub(crate) fn note(&self, queue: &Queue, worker: &HolderId) {
        self.lock().insert((queue.clone(), worker.clone()));
    }

    pub(crate) fn contain(&self, queue: &Queue, worker: &HolderId) -> bool {
        let doubts = self.lock();
        // Nearly always: this is asked after every claim.
        !doubts.is_empty() && doubts.contains(&(queue.clone(), worker.clone()))
    }

    fn end(&self, queue: &Queue, worker: &HolderId) {
        self.lock().remove(&(queue.clone(), worker.clone()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<(Queue, HolderId)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was found in one shard, and the pops whose copies it was.
#[derive(Default)]
struct Found {
    jobs: Vec<Claimed>,
    pops: Vec<u64>,
}

impl RedisStore {
    pub(crate) async fn recover_claims(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.doubts.end(recover.queue, recover.worker);
        let parts = self.each_shard(SHARD_TIMEOUT, |shard| self.recover_shard(shard, &recover)).await;
        for (shard, _) in &parts.failures {
            self.breaker.remember(*shard, (recover.queue, recover.worker));
        }
        let mut jobs = Vec::new();
        for (shard, found) in parts.any()?.answers {
            jobs.extend(found.jobs);
            let place = (recover.queue.clone(), shard, recover.worker.clone());
            self.pops.recovered(&place, &found.pops);
        }
        jobs.retain(|claimed| !recover.known_leases.contains(&claimed.lease));
        Ok(jobs)
    }

    async fn recover_shard(&self, shard: u16, recover: &RecoverParams<'_>) -> Result<Found, Error> {
        match recover.queue.guarantee {
            Guarantee::AtLeastOnce => {
                Ok(Found { jobs: self.recover_entries(shard, recover).await?, pops: Vec::new() })
            }
            Guarantee::AtMostOnce => self.recover_list(shard, recover).await,
        }
    }

    /// Entries that the worker's consumers have pending, page by page.
    async fn recover_entries(&self, shard: u16, recover: &RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        let mut jobs = Vec::new();
        for (suffix, started) in [("", true), (HELD, false)] {
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
                let entries = match self.link.send(shard, &read).await {
                    Err(error) if is_no_group(&error) => return Ok(Vec::new()),
                    answer => read_group(answer.map_err(|error| classify("XREADGROUP", error))?)?,
                };
                let Some(last) = entries.last() else { break };
                from = entry_id(last.token);
                let page = entries.into_iter().map(|entry| claimed((recover.queue, shard), entry, started));
                jobs.extend(page.filter(|claimed| !recover.known_leases.contains(&claimed.lease)));
            }
        }
        Ok(jobs)
    }

    async fn recover_list(&self, shard: u16, recover: &RecoverParams<'_>) -> Result<Found, Error> {
        let mut found = Found { jobs: self.recover_locks(shard, recover).await?, pops: Vec::new() };
        let RecoverParams { queue, worker, lease, .. } = *recover;
        let share = Share { queue, worker, lease, shard, claim: 0, starting: usize::MAX, held: 0 };
        for number in self.pops.in_doubt(&share.place()) {
            let copies = redis::cmd("LRANGE").arg(share.taken(&self.keys, number)).arg(0).arg(-1).take();
            let copies = self.link.send(shard, &copies).await.map_err(|error| classify("LRANGE", error))?;
            let copies: Vec<_> = array(copies).unwrap_or_default().into_iter().filter_map(bytes).collect();
            if !copies.is_empty() {
                found.jobs.extend(self.take(share, number, &copies).await?);
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
            let (next, page): (String, Vec<Vec<u8>>) = self.link.query(shard, &scan).await?;
            jobs.extend(page.chunks_exact(2).filter_map(|pair| locked((shard, recover), &pair[0], &pair[1])));
            if next == "0" {
                return Ok(jobs);
            }
            cursor = next;
        }
    }

    /// Removes the copies that the pops of a worker have left.
    pub(super) async fn remove_copies(&self, worker: &HolderId) -> Result<(), Error> {
        for ((queue, shard, _), numbers) in self.pops.forget(worker) {
            let mut batch = Pipeline::new();
            for mark in numbers.iter().map(|number| mark(worker, *number)) {
                batch.cmd("DEL").arg(self.keys.taken(shard, &queue, &mark));
                batch.cmd("ZREM").arg(self.keys.takers(shard, &queue)).arg(mark);
            }
            self.link.pipeline(shard, &batch).await.map_err(|error| classify("ZREM", error))?;
        }
        Ok(())
    }
}

/// The claim that a trace stands for, if the worker has it and does not know of it.
fn locked((shard, recover): (u16, &RecoverParams<'_>), job: &[u8], trace: &[u8]) -> Option<Claimed> {
    let (job, trace) = (JobId::new(std::str::from_utf8(job).ok()?).ok()?, Trace::read(trace)?);
    let lease = Lease { queue: recover.queue.clone(), job, shard, token: trace.token };
    let is_unknown = trace.worker == recover.worker.as_str() && !recover.known_leases.contains(&lease);
    is_unknown.then(|| Claimed::read(trace.envelope, true, |_| lease))
}
