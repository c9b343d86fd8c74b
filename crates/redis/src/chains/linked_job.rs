//! Jobs that are about to be added, with what is known of the chains they are to wait for.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use tidemill_core::chain::with_blockers;
use tidemill_core::store::NewJob;
use tidemill_core::{Error, JobId};

use super::chain_state::{Standing, keeps_result, unkept};
use super::link::Batch;
use super::register_wait::{how, new_mark};
use crate::connection::Call;
use crate::jobs::due;
use crate::store::RedisStore;

/// A job that is about to be added.
pub(super) struct Draft<'a> {
    pub(super) job: &'a NewJob,
    /// The envelope; with what it was told, if everything it was to wait for has closed.
    pub(super) envelope: Bytes,
    /// Names its wait; empty if it waits for nothing.
    pub(super) mark: String,
    /// The chains it waits for: how, and which or what it told.
    after: Vec<(&'static str, Bytes)>,
    /// Names its receipt.
    pub(super) receipt: &'a str,
    /// Whether a key is reserved for it.
    is_keyed: bool,
}

impl Draft<'_> {
    /// Its part of the script's arguments.
    pub(super) fn push(&self, call: &mut Call<'_>) {
        call.push(self.job.id.as_str());
        call.push(due(self.job.due));
        call.push(&self.envelope[..]);
        // Without a reservation there is no key to write down.
        let key = self.job.links.dedup.as_ref().filter(|_| self.is_keyed);
        call.push(key.map_or("", |dedup| dedup.key.as_str()));
        call.push(&self.mark);
        if !self.mark.is_empty() {
            self.push_after(call);
        }
    }

    /// The chains it waits for.
    pub(super) fn push_after(&self, call: &mut Call<'_>) {
        call.push(self.after.len());
        for (how, value) in &self.after {
            call.push(*how);
            call.push(&value[..]);
        }
    }
}

impl RedisStore {
    /// Drafts the jobs that have no answer yet. A job may wait for an earlier one of the same batch.
    pub(super) async fn drafts<'a>(&self, batch: &'a Batch<'_>) -> Result<Vec<Option<Draft<'a>>>, Error> {
        let is_new = |index: &usize| batch.answers[*index].is_none();
        let mut earlier: HashMap<JobId, &Bytes> = HashMap::new();
        let mut wanted = HashSet::new();
        for index in (0..batch.jobs.len()).filter(is_new) {
            let job = &batch.jobs[index];
            for chain in job.links.after.iter().map(JobId::chain) {
                match earlier.get(&chain) {
                    Some(envelope) if !keeps_result(envelope) => return Err(unkept(&chain)),
                    Some(_) => {}
                    None => drop(wanted.insert(chain)),
                }
            }
            earlier.insert(job.id.chain(), &job.envelope);
        }
        let standings = self.standings(wanted.into_iter().collect()).await?;
        let draft = |index: usize| {
            let (receipt, is_keyed) = (&*batch.receipts[index], batch.reserved[index].is_some());
            is_new(&index).then(|| Draft { receipt, is_keyed, ..self.draft(&batch.jobs[index], &standings) })
        };
        Ok((0..batch.jobs.len()).map(draft).collect())
    }

    pub(super) fn draft<'a>(&self, job: &'a NewJob, standings: &HashMap<JobId, Standing>) -> Draft<'a> {
        let shard = self.keys.shard_of(&job.id);
        let after = job.links.after.iter().map(|chain| {
            let chain = chain.chain();
            match standings.get(&chain) {
                Some(Standing::Closed(told)) => ("told", told.clone()),
                _ => (how(self, shard, &chain), Bytes::copy_from_slice(chain.as_str().as_bytes())),
            }
        });
        let after: Vec<_> = after.collect();
        let (envelope, mark) = (job.envelope.clone(), String::new());
        let mut draft = Draft { job, envelope, mark, after, receipt: "", is_keyed: false };
        if draft.after.iter().any(|(how, _)| *how != "told") {
            draft.mark = new_mark();
        } else if !draft.after.is_empty() {
            draft.envelope = with_blockers(&job.envelope, draft.after.iter().map(|(_, told)| &told[..]));
        }
        draft
    }
}
