//! A model of a queue: the expected content of a store after a sequence of calls, by the job's
//! state machine.

use std::collections::BTreeMap;

use tidemill_core::job::{JobEvent, JobState};
use tidemill_core::name::JobId;
use tidemill_core::store::{Cancelled, Claimed, Enqueued};

/// The expected state of a queue.
#[derive(Default)]
pub(super) struct Model {
    /// The jobs in the store.
    jobs: BTreeMap<JobId, ModelJob>,
    /// Every id that was ever used.
    pub(super) ids: Vec<JobId>,
    /// Leases that have ended.
    pub(super) stale: Vec<Claimed>,
    /// Whether the queue is paused.
    pub(super) paused: bool,
}

struct ModelJob {
    state: JobState,
    keeps_record: bool,
    held: Option<Claimed>,
    cancelling: bool,
}

impl Model {
    pub(super) fn state(&self, job: &JobId) -> Option<JobState> {
        self.jobs.get(job).map(|entry| entry.state)
    }

    pub(super) fn count(&self, state: JobState) -> usize {
        self.jobs.values().filter(|entry| entry.state == state).count()
    }

    /// Ready, scheduled, running, dead.
    pub(super) fn counts(&self) -> [u64; 4] {
        [JobState::Ready, JobState::Scheduled, JobState::Running, JobState::Dead]
            .map(|state| self.count(state) as u64)
    }

    /// The leases that are held.
    pub(super) fn held(&self) -> Vec<Claimed> {
        self.jobs.values().filter_map(|entry| entry.held.clone()).collect()
    }

    pub(super) fn enqueue(&mut self, job: &JobId, state: JobState, keeps_record: bool) -> Enqueued {
        if self.jobs.contains_key(job) {
            return Enqueued::Exists;
        }
        if !self.ids.contains(job) {
            self.ids.push(job.clone());
        }
        self.jobs.insert(job.clone(), ModelJob { state, keeps_record, held: None, cancelling: false });
        Enqueued::Created
    }

    pub(super) fn claim(&mut self, claimed: Claimed) {
        let entry = self.apply(&claimed.lease.job.clone(), JobEvent::Claimed);
        entry.held = Some(claimed);
    }

    /// Ends a claim with `event`. A job that ends without a record is removed, and one with a
    /// cancel request is not requeued.
    pub(super) fn settle(&mut self, job: &JobId, event: JobEvent) {
        let cancelling = self.jobs.get_mut(job).is_some_and(|entry| std::mem::take(&mut entry.cancelling));
        let removed = cancelling && matches!(event, JobEvent::Requeued | JobEvent::Postponed);
        let entry = self.apply(job, if removed { JobEvent::Cancelled } else { event });
        let (state, keeps_record) = (entry.state, entry.keeps_record);
        let over = entry.held.take();
        self.stale.extend(over);
        if removed || state.is_final() && state != JobState::Dead && !keeps_record {
            self.jobs.remove(job);
        }
    }

    pub(super) fn cancel(&mut self, job: &JobId) -> Cancelled {
        match self.state(job) {
            None => Cancelled::NotFound,
            Some(JobState::Running) => {
                self.jobs.entry(job.clone()).and_modify(|entry| entry.cancelling = true);
                Cancelled::Requested
            }
            Some(state) if state.is_final() => Cancelled::Ended(state),
            Some(_) => {
                self.apply(job, JobEvent::Cancelled);
                self.jobs.remove(job);
                Cancelled::Removed
            }
        }
    }

    pub(super) fn redrive(&mut self, job: &JobId) -> u64 {
        let is_dead = self.state(job) == Some(JobState::Dead);
        if is_dead {
            self.apply(job, JobEvent::Redriven);
        }
        u64::from(is_dead)
    }

    pub(super) fn drop_dead(&mut self, job: &JobId) -> u64 {
        let is_dead = self.state(job) == Some(JobState::Dead);
        if is_dead {
            self.jobs.remove(job);
        }
        u64::from(is_dead)
    }

    pub(super) fn purge(&mut self) -> u64 {
        let before = self.jobs.len();
        self.jobs.retain(|_, entry| !matches!(entry.state, JobState::Ready | JobState::Scheduled));
        (before - self.jobs.len()) as u64
    }

    fn apply(&mut self, job: &JobId, event: JobEvent) -> &mut ModelJob {
        let entry =
            self.jobs.get_mut(job).unwrap_or_else(|| panic!("job {job} is not there to be {event:?}"));
        entry.state = entry.state.next(event).unwrap_or_else(|illegal| panic!("job {job}: {illegal}"));
        entry
    }
}
