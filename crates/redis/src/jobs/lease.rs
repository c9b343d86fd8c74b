//! Starting held jobs and extending leases.

use futures_util::future::join_all;
use tidemill_core::store::{Claimed, Extend, Held, Start, Verdict};
use tidemill_core::{Delivery, Error, Lease, WorkerId};

use super::list::UNLOCKED;
use super::{by_place, ms};
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::{entry_id, ints};

impl RedisStore {
    pub(crate) async fn start_jobs(&self, start: Start<'_>) -> Result<Vec<Verdict>, Error> {
        let mut verdicts = vec![Verdict::Accepted; start.leases.len()];
        for (first, members) in by_place(start.leases.iter()) {
            let leases: Vec<&Lease> = members.iter().map(|&member| &start.leases[member]).collect();
            let held = match first.queue.delivery {
                Delivery::AtLeastOnce => self.start_entries(&leases, start.worker).await?,
                // A job taken from a list is gone from there whether it starts or not.
                Delivery::AtMostOnce => self.extend_locks(&leases, (start.worker, 0)).await?,
            };
            for (member, held) in members.into_iter().zip(held) {
                verdicts[member] = if held == Held::Lost { Verdict::LeaseLost } else { Verdict::Accepted };
            }
        }
        Ok(verdicts)
    }

    async fn start_entries(&self, leases: &[&Lease], worker: &WorkerId) -> Result<Vec<Held>, Error> {
        let (shard, queue) = (leases[0].shard, &leases[0].queue);
        let keys = [self.keys.target(shard, queue)];
        let mut call = Call::new(&self.scripts.start, &keys).arg(self.group(queue)).arg(worker.as_str());
        leases.iter().for_each(|lease| call.push(entry_id(lease.token)));
        let answer = ints(self.link.call(shard, call).await?, "start")?;
        Ok(answer.into_iter().map(held).collect())
    }

    /// Makes jobs that a blocked read brought beyond what was asked for held ones.
    pub(super) async fn hold_back(&self, jobs: &mut [Claimed], worker: &WorkerId) -> Result<(), Error> {
        jobs.iter_mut().for_each(|job| job.started = false);
        for job in jobs {
            if job.lease.queue.delivery == Delivery::AtLeastOnce {
                let (shard, queue) = (job.lease.shard, &job.lease.queue);
                let call = Call::new(&self.scripts.retreat, &[self.keys.target(shard, queue)])
                    .arg(self.group(queue))
                    .arg(worker.as_str())
                    .arg(entry_id(job.lease.token));
                self.link.call(shard, call).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn extend_leases(&self, extend: Extend<'_>) -> Result<Vec<Held>, Error> {
        let mut held = vec![Held::Yes; extend.leases.len()];
        let places = by_place(extend.leases.iter());
        let parts = places.iter().map(|(_, members)| self.extend_part(&extend, members));
        // All at once: a shard that does not answer must not keep the leases of others from being extended.
        for ((_, members), answer) in places.iter().zip(join_all(parts).await) {
            members.iter().zip(answer?).for_each(|(&member, answer)| held[member] = answer);
        }
        Ok(held)
    }

    /// Extends leases of one place.
    async fn extend_part(&self, extend: &Extend<'_>, members: &[usize]) -> Result<Vec<Held>, Error> {
        let leases: Vec<&Lease> = members.iter().map(|&member| &extend.leases[member]).collect();
        match leases[0].queue.delivery {
            Delivery::AtLeastOnce => self.extend_entries(&leases, (extend.worker, ms(extend.lease))).await,
            Delivery::AtMostOnce => self.extend_locks(&leases, (extend.worker, ms(extend.lease))).await,
        }
    }

    async fn extend_entries(
        &self,
        leases: &[&Lease],
        (worker, lease): (&WorkerId, i64),
    ) -> Result<Vec<Held>, Error> {
        let (shard, queue) = (leases[0].shard, &leases[0].queue);
        let keys = [
            self.keys.target(shard, queue),
            self.keys.leases(shard, queue),
            self.keys.cancelled(shard, queue),
        ];
        let mut call =
            Call::new(&self.scripts.extend, &keys).arg(self.group(queue)).arg(worker.as_str()).arg(lease);
        for lease in leases {
            call.push(entry_id(lease.token));
            call.push(lease.job.chain().as_str());
        }
        let answer = ints(self.link.call(shard, call).await?, "extend")?;
        Ok(answer.into_iter().map(held).collect())
    }

    /// Extends locks; with a life of 0, only asks for them. Of jobs that are never locked there is nothing to ask.
    async fn extend_locks(
        &self,
        leases: &[&Lease],
        (worker, life): (&WorkerId, i64),
    ) -> Result<Vec<Held>, Error> {
        let (shard, queue) = (leases[0].shard, &leases[0].queue);
        if life == 0 && leases.iter().all(|lease| lease.token == UNLOCKED) {
            return Ok(vec![Held::Yes; leases.len()]);
        }
        let mut keys = vec![
            self.keys.cancelled(shard, queue),
            self.keys.running(shard, queue),
            self.keys.untracked(shard, queue),
        ];
        keys.extend(leases.iter().map(|lease| self.keys.lock(shard, queue, &lease.job)));
        let mut call = Call::new(&self.scripts.hold, &keys).arg(life).arg(worker.as_str());
        for lease in leases {
            call.push(lease.token.0.to_string());
            call.push(lease.job.chain().as_str());
            call.push(lease.job.as_str());
        }
        if life > 0 {
            self.noted.add(leases.iter().filter(|lease| lease.token == UNLOCKED).map(|lease| &lease.job));
        }
        let answer = ints(self.link.call(shard, call).await?, "hold")?;
        Ok(answer.into_iter().map(held).collect())
    }
}

fn held(answer: i64) -> Held {
    match answer {
        1 => Held::Yes,
        2 => Held::Cancelling,
        _ => Held::Lost,
    }
}
