//! Jobs with links that are about to be added, with the states of their blockers.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use tidemill_core::chain::with_blockers;
use tidemill_core::store::NewJob;
use tidemill_core::{Error, JobId};

use super::chain_state::{BlockerState, keeps_result, result_not_kept};
use super::link::LinkedBatch;
use super::register_wait::{blocker_locality, new_wait_id};
use crate::connection::named_args::NamedArgs;
use crate::jobs::due_argument;
use crate::store::RedisStore;

/// A job that is about to be added.
pub(super) struct LinkedJob<'a> {
    pub(super) job: &'a NewJob,
    /// The envelope; with all notices, if every blocker has closed.
    pub(super) envelope: Bytes,
    /// The id of its wait; empty if it waits for nothing.
    pub(super) wait_id: String,
    /// Its blockers: `here` or `away` and a chain, or `told` and a notice.
    blockers: Vec<(&'static str, Bytes)>,
    /// The name of its receipt.
    pub(super) receipt: &'a str,
    /// Whether a key is reserved for it.
    is_keyed: bool,
}

impl LinkedJob<'_> {
    /// Its arguments for `lua/chains/link.lua`, without its keys.
    pub(super) fn to_args(&self) -> NamedArgs {
        // Without a reservation there is no key to store.
        let dedup = self.job.links.dedup.as_ref().filter(|_| self.is_keyed);
        NamedArgs::new()
            .with("id", self.job.id.as_str())
            .with("due", due_argument(self.job.due))
            .with("envelope", &self.envelope)
            .with("key", dedup.map(|dedup| dedup.key.as_str()))
    }

    /// Its blockers.
    pub(super) fn blocker_args(&self) -> Vec<NamedArgs> {
        let blocker = |(how, value): &(&str, Bytes)| NamedArgs::new().with("how", *how).with("value", value);
        self.blockers.iter().map(blocker).collect()
    }
}

impl RedisStore {
    /// Prepares the jobs without a result. A job may wait for an earlier one of the same batch.
    pub(super) async fn prepare_jobs<'a>(
        &self,
        batch: &'a LinkedBatch<'_>,
    ) -> Result<Vec<Option<LinkedJob<'a>>>, Error> {
        let is_new = |index: &usize| batch.results[*index].is_none();
        let mut earlier: HashMap<JobId, &Bytes> = HashMap::new();
        let mut wanted = HashSet::new();
        for index in (0..batch.jobs.len()).filter(is_new) {
            let job = &batch.jobs[index];
            for chain in job.links.after.iter().map(JobId::chain) {
                match earlier.get(&chain) {
                    Some(envelope) if !keeps_result(envelope) => return Err(result_not_kept(&chain)),
                    Some(_) => {}
                    None => drop(wanted.insert(chain)),
                }
            }
            earlier.insert(job.id.chain(), &job.envelope);
        }
        let states = self.blocker_states(wanted.into_iter().collect()).await?;
        let linked_job = |index: usize| {
            let (receipt, is_keyed) = (&*batch.receipts[index], batch.reserved[index].is_some());
            is_new(&index).then(|| LinkedJob {
                receipt,
                is_keyed,
                ..self.prepare_job(&batch.jobs[index], &states)
            })
        };
        Ok((0..batch.jobs.len()).map(linked_job).collect())
    }

    pub(super) fn prepare_job<'a>(
        &self,
        job: &'a NewJob,
        states: &HashMap<JobId, BlockerState>,
    ) -> LinkedJob<'a> {
        let shard = self.keys.shard_of(&job.id);
        let blockers = job.links.after.iter().map(|chain| {
            let chain = chain.chain();
            match states.get(&chain) {
                Some(BlockerState::Closed(notice)) => ("told", notice.clone()),
                _ => {
                    (blocker_locality(self, shard, &chain), Bytes::copy_from_slice(chain.as_str().as_bytes()))
                }
            }
        });
        let blockers: Vec<_> = blockers.collect();
        let (envelope, wait_id) = (job.envelope.clone(), String::new());
        let mut linked_job = LinkedJob { job, envelope, wait_id, blockers, receipt: "", is_keyed: false };
        if linked_job.blockers.iter().any(|(how, _)| *how != "told") {
            linked_job.wait_id = new_wait_id();
        } else if !linked_job.blockers.is_empty() {
            linked_job.envelope =
                with_blockers(&job.envelope, linked_job.blockers.iter().map(|(_, notice)| &notice[..]));
        }
        linked_job
    }
}
