//! Starting held jobs.

use tidemill_core::store::{Claimed, Extended, StartParams, Verdict};
use tidemill_core::{Error, Guarantee, HolderId, Lease};

use super::extend::parse_held;
use crate::connection::ScriptCall;
use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::reply::{entry_id, ints};
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn start_jobs(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        let part = |leases: Vec<Lease>| self.start_part(leases, start.worker);
        let held = self.each_queue(start.leases, SHARD_TIMEOUT, part).await?;
        // Leases of a failed queue may have been started: they are not run, and are given back.
        let verdict = |held| {
            if matches!(held, Extended::Lost | Extended::Unknown) {
                Verdict::LeaseLost
            } else {
                Verdict::Accepted
            }
        };
        Ok(held.into_iter().map(verdict).collect())
    }

    /// Starts jobs of one queue in one shard.
    async fn start_part(&self, leases: Vec<Lease>, worker: &HolderId) -> Result<Vec<Extended>, Error> {
        match leases[0].queue.guarantee {
            Guarantee::AtLeastOnce => self.start_entries(&leases, worker).await,
            // A list job has left its list whether it starts or not.
            Guarantee::AtMostOnce => self.extend_locks(&leases, (worker, 0)).await,
        }
    }

    async fn start_entries(&self, leases: &[Lease], worker: &HolderId) -> Result<Vec<Extended>, Error> {
        let (shard, queue) = (leases[0].shard, &leases[0].queue);
        let keys = [self.keys.target(shard, queue)];
        let mut call =
            ScriptCall::new(&self.scripts.start, &keys).arg(self.group(queue)).arg(worker.as_str());
        leases.iter().for_each(|lease| call.push(entry_id(lease.token)));
        let reply = ints(self.connections.call(shard, call).await?, "start")?;
        Ok(reply.into_iter().map(parse_held).collect())
    }

    /// Marks surplus jobs of a blocking read as held.
    pub(super) async fn unstart_jobs(&self, jobs: &mut [Claimed], worker: &HolderId) -> Result<(), Error> {
        jobs.iter_mut().for_each(|job| job.started = false);
        for job in jobs {
            if job.lease.queue.guarantee == Guarantee::AtLeastOnce {
                let (shard, queue) = (job.lease.shard, &job.lease.queue);
                let call = ScriptCall::new(&self.scripts.unstart, &[self.keys.target(shard, queue)])
                    .arg(self.group(queue))
                    .arg(worker.as_str())
                    .arg(entry_id(job.lease.token));
                self.connections.call(shard, call).await?;
            }
        }
        Ok(())
    }
}
