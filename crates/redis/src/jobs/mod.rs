//! The job verbs, one file each, with their helpers.

mod cancel;
mod claim;
mod complete;
mod dead_letters;
mod delete;
mod drop_dead;
mod enqueue;
mod enqueue_plain;
mod extend;
mod group_commit;
mod job_action;
mod leave;
mod list;
mod list_expired;
mod list_pops;
pub(crate) mod locate;
mod orphans;
mod overdue;
pub(crate) mod promote;
mod prune;
mod receipt;
mod recover;
mod redrive;
mod repair;
mod settle;
mod start;
mod stream;
mod stream_position;
mod untracked;

use std::time::Duration;

use async_trait::async_trait;
use tidemill_core::store::{
    Cancelled, ClaimParams, Claimed, CompleteParams, Completed, Deleted, EnqueueParams, Enqueued,
    ExpiredLeases, ExtendParams, Extended, Jobs, ListExpiredParams, PromoteParams, Promoted, Pruned,
    RecoverParams, RedriveParams, SettleParams, StartParams, Verdict,
};
use tidemill_core::{Error, HolderId, JobId, Lease, Queue};

use crate::store::RedisStore;
pub(crate) use dead_letters::dead_letter_id;
pub(crate) use enqueue::{due_argument, unknown_if_created};
pub(crate) use enqueue_plain::PlainEnqueuer;
pub(crate) use group_commit::GroupCommit;
pub(crate) use job_action::{MAX_ATTEMPTS, keeps_moving_error};
pub(crate) use list_pops::ListPops;
pub(crate) use orphans::OrphanScans;
pub(crate) use overdue::OverdueCursors;
pub(crate) use receipt::{RECEIPT_TTL_MS, ReceiptSlots};
pub(crate) use recover::UncertainClaims;
pub(crate) use repair::RepairCursors;
pub(crate) use stream::INVALID_ID_PREFIX;
pub(crate) use untracked::RunningUntracked;

#[async_trait]
impl Jobs for RedisStore {
    async fn enqueue(&self, enqueue: EnqueueParams<'_>) -> Result<Vec<Enqueued>, Error> {
        self.enqueue_jobs(enqueue).await
    }

    async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.claim_jobs(claim).await
    }

    async fn recover(&self, recover: RecoverParams<'_>) -> Result<Vec<Claimed>, Error> {
        self.recover_claims(recover).await
    }

    fn needs_recover(&self, queue: &Queue, worker: &HolderId) -> bool {
        self.uncertain_claims.contains(queue, worker)
    }

    async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        self.start_jobs(start).await
    }

    async fn extend(&self, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
        self.extend_leases(extend).await
    }

    async fn settle(&self, settle: SettleParams<'_>) -> Result<Vec<Verdict>, Error> {
        self.settle_claims(settle).await
    }

    async fn promote(&self, promote: PromoteParams<'_>) -> Result<Promoted, Error> {
        self.promote_due(promote).await
    }

    async fn list_expired(&self, expired: ListExpiredParams<'_>) -> Result<ExpiredLeases, Error> {
        self.expired_leases(expired).await
    }

    async fn cancel(&self, job: &JobId) -> Result<Cancelled, Error> {
        self.cancel_job(job).await
    }

    async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        self.complete_job(complete).await
    }

    async fn delete(&self, chain: &JobId) -> Result<Deleted, Error> {
        self.delete_chain(chain).await
    }

    async fn redrive(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        self.redrive_dead_letters(redrive).await
    }

    async fn drop_dead(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        self.drop_dead_letters(queue, jobs).await
    }

    async fn prune(&self, queues: &[Queue]) -> Result<Pruned, Error> {
        self.prune_leftovers(queues).await
    }

    async fn leave(&self, worker: &HolderId, queues: &[Queue]) -> Result<(), Error> {
        self.remove_worker(worker, queues).await
    }
}

/// Maximum entries or ids of one script: Lua's `unpack` fails beyond some thousands.
pub(crate) const MAX_SCRIPT_ITEMS: usize = 1_000;

/// Approximate bytes that one script receives or moves: a script blocks the server. One that moves
/// 100 KiB reads, checks and copies them several times, and takes 2 to 3 ms.
pub(crate) const MAX_SCRIPT_BYTES: usize = 256 << 10;

/// Approximate cost of an argument beside its bytes.
pub(crate) const ITEM_OVERHEAD_BYTES: usize = 256;

/// Splits `members` into batches for one script each, in order. `weigh` returns the approximate
/// bytes of a member.
pub(crate) fn script_batches(members: Vec<usize>, weigh: impl Fn(usize) -> usize) -> Vec<Vec<usize>> {
    let (mut portions, mut load) = (Vec::<Vec<usize>>::new(), 0);
    for member in members {
        let weight = weigh(member) + ITEM_OVERHEAD_BYTES;
        load += weight;
        match portions.last_mut() {
            Some(last) if load <= MAX_SCRIPT_BYTES && last.len() < MAX_SCRIPT_ITEMS => last.push(member),
            _ => {
                load = weight;
                portions.push(vec![member]);
            }
        }
    }
    portions
}

/// Groups the positions of `leases` by queue and shard, which one script can handle.
fn by_queue<'a>(leases: impl Iterator<Item = &'a Lease>) -> Vec<(&'a Lease, Vec<usize>)> {
    let mut groups: Vec<(&Lease, Vec<usize>)> = Vec::new();
    for (position, lease) in leases.enumerate() {
        let together = |(first, members): &(&Lease, Vec<usize>)| {
            first.shard == lease.shard && first.queue == lease.queue && members.len() < MAX_SCRIPT_ITEMS
        };
        // The last group nearly always matches.
        match groups.iter_mut().rev().find(|group| together(group)) {
            Some((_, members)) => members.push(position),
            None => groups.push((lease, vec![position])),
        }
    }
    groups
}

/// A duration in milliseconds for a script: at least 1, and bounded by `millis`, so that no later
/// command (SET PX, PEXPIRE, ZADD) fails after the script's first write.
pub(crate) fn ms(duration: Duration) -> i64 {
    tidemill_core::clock::millis(duration).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_given_what_it_can_carry_and_one_thing_however_heavy() {
        let of = |weight: usize, count: usize| script_batches((0..count).collect(), |_| weight);
        assert_eq!(of(0, MAX_SCRIPT_BYTES / ITEM_OVERHEAD_BYTES + 1).len(), 2);
        assert_eq!(of(2 * MAX_SCRIPT_BYTES, 3), [[0], [1], [2]]);
        assert_eq!(of(0, 3), [[0, 1, 2]]);
        assert!(of(0, 0).is_empty());
    }
}
