//! Starting held jobs.

use tidemill_core::store::{Claimed, Extended, StartParams, Verdict};
use tidemill_core::{Error, Guarantee, HolderId, Lease};

use super::extend::held;
use crate::connection::Call;
use crate::connection::breaker::SHARD_TIMEOUT;
use crate::connection::reply::{entry_id, ints};
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn start_jobs(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        let part = |leases: Vec<Lease>| self.start_part(leases, start.worker);
        let held = self.each_place(start.leases, SHARD_TIMEOUT, part).await?;
        // Of leases whose place failed nobody knows whether they were started: they are not run, and given back.
        let verdict = |held| {
            if matches!(held, Extended::Lost | Extended::Unknown) {
                Verdict::LeaseLost
            } else {
                Verdict::Accepted
            }
        };
        Ok(held.into_iter().map(verdict).collect())
    }

    /// Starts jobs of one place.
    async fn start_part(&self, leases: Vec<Lease>, worker: &HolderId) -> Result<Vec<Extended>, Error> {
        match leases[0].queue.guarantee {
            Guarantee::AtLeastOnce => self.start_entries(&leases, worker).await,
            // A job taken from a list is gone from there whether it starts or not.
            Guarantee::AtMostOnce => self.extend_locks(&leases, (worker, 0)).await,
        }
    }

    async fn start_entries(&self, leases: &[Lease], worker: &HolderId) -> Result<Vec<Extended>, Error> {
        let (shard, queue) = (leases[0].shard, &leases[0].queue);
        let keys = [self.keys.target(shard, queue)];
        let mut call = Call::new(&self.scripts.start, &keys).arg(self.group(queue)).arg(worker.as_str());
        leases.iter().for_each(|lease| call.push(entry_id(lease.token)));
        let answer = ints(self.link.call(shard, call).await?, "start")?;
        Ok(answer.into_iter().map(held).collect())
    }

    /// Makes jobs that a blocked read brought beyond what was asked for held ones.
    pub(super) async fn hold_back(&self, jobs: &mut [Claimed], worker: &HolderId) -> Result<(), Error> {
        jobs.iter_mut().for_each(|job| job.started = false);
        for job in jobs {
            if job.lease.queue.guarantee == Guarantee::AtLeastOnce {
                let (shard, queue) = (job.lease.shard, &job.lease.queue);
                let call = Call::new(&self.scripts.unstart, &[self.keys.target(shard, queue)])
                    .arg(self.group(queue))
                    .arg(worker.as_str())
                    .arg(entry_id(job.lease.token));
                self.link.call(shard, call).await?;
            }
        }
        Ok(())
    }
}
