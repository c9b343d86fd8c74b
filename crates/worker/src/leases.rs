//! Every lease in this worker's hands: running, buffered, or waiting to be settled.
//!
//! One mutex is enough: it is taken once per claimed batch, once per settled batch and once per heartbeat,
//! never per job.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_core::{Envelope, JobId, Lease};

use crate::assignment::{Assignment, Why};

/// The leases that must be kept alive.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    taken: Vec<Option<Arc<Assignment>>>,
    vacant: Vec<usize>,
}

impl Leases {
    /// Takes claimed jobs into this worker's hands.
    pub(crate) fn adopt(
        &self,
        lane: usize,
        claimed: impl IntoIterator<Item = (Lease, Envelope)>,
    ) -> Vec<Arc<Assignment>> {
        let mut places = self.lock();
        claimed.into_iter().map(|(lease, envelope)| places.seat(lane, lease, envelope)).collect()
    }

    /// Lets go of jobs that are settled or lost.
    pub(crate) fn release(&self, assignments: impl IntoIterator<Item = Arc<Assignment>>) {
        let mut places = self.lock();
        for assignment in assignments {
            places.taken[assignment.place] = None;
            places.vacant.push(assignment.place);
        }
    }

    /// What to extend. A lease that is lost stays lost, so nobody asks for it again.
    pub(crate) fn held(&self) -> Vec<Arc<Assignment>> {
        let places = self.lock();
        let held = places.taken.iter().flatten();
        held.filter(|assignment| !assignment.stop.is_lost()).cloned().collect()
    }

    /// Every lease of a lane that is in this worker's hands, whatever has become of it.
    pub(crate) fn of_lane(&self, lane: usize) -> HashSet<Lease> {
        let places = self.lock();
        let taken = places.taken.iter().flatten().filter(|assignment| assignment.lane == lane);
        taken.map(|assignment| assignment.lease.clone()).collect()
    }

    /// The held leases of `jobs`. A walk through all, because this is rare and every other way would cost each
    /// job something.
    pub(crate) fn held_of(&self, jobs: &HashSet<JobId>) -> Vec<Arc<Assignment>> {
        let mut held = self.held();
        held.retain(|assignment| jobs.contains(&assignment.lease.job));
        held
    }

    /// Those of `jobs` that have been neither settled nor lost since.
    pub(crate) fn still_held(&self, jobs: &[Arc<Assignment>]) -> Vec<Arc<Assignment>> {
        let places = self.lock();
        let is_held = |job: &&Arc<Assignment>| {
            let taken = places.taken[job.place].as_ref();
            taken.is_some_and(|taken| Arc::ptr_eq(taken, job)) && !job.stop.is_lost()
        };
        jobs.iter().filter(is_held).cloned().collect()
    }

    /// Whether this worker holds `job`.
    pub(crate) fn holds(&self, job: &JobId) -> bool {
        self.lock().taken.iter().flatten().any(|assignment| assignment.lease.job == *job)
    }

    /// Asks every handler to stop because the worker is leaving.
    pub(crate) fn leave(&self) {
        self.lock().taken.iter().flatten().for_each(|assignment| assignment.stop.request(Why::Leaving));
    }

    pub(crate) fn count(&self) -> usize {
        let places = self.lock();
        places.taken.len() - places.vacant.len()
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        // Nothing in here can panic half-way through a change.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn seat(&mut self, lane: usize, lease: Lease, envelope: Envelope) -> Arc<Assignment> {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.taken.push(None);
            self.taken.len() - 1
        });
        let assignment = Arc::new(Assignment::new(lease, envelope, lane, place));
        self.taken[place] = Some(assignment.clone());
        assignment
    }
}
