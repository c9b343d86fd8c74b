//! FaultyStore faults: which store call fails, how, and how often.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use tidemill_core::settle::Settlement;
use tidemill_core::{Error, JobId};
use tokio::sync::watch;

/// A store call that a worker makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Enqueue,
    Claim,
    Recover,
    Start,
    Extend,
    Settle,
    Promote,
    Expired,
    Queues,
    Leave,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The store cannot be reached.
    Away,
    /// The store accepts the call and never answers.
    Silent,
    /// The call takes effect, but the answer is lost.
    AnswerLost,
    /// The call takes effect, and the answer is late.
    Late,
    /// The request is rejected.
    Refused,
    /// The call takes effect, but replicas do not confirm it.
    Unconfirmed,
}

/// The effect of a locked job on a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// It fails.
    Refuses,
    /// It waits until the job is unlocked.
    Delays,
}

/// The planned faults, and a record of all calls.
#[derive(Debug)]
pub(crate) struct FaultPlan {
    faults: Mutex<Vec<(Verb, VecDeque<Fault>)>>,
    standing: Mutex<Vec<(Verb, Fault)>>,
    calls: watch::Sender<Vec<(Verb, usize)>>,
    locked: watch::Sender<Option<(JobId, Lock)>>,
    /// A job in a shard of the store that does not answer.
    silent_shard_of: Mutex<Option<JobId>>,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self {
            faults: Mutex::default(),
            standing: Mutex::default(),
            calls: watch::Sender::new(Vec::new()),
            locked: watch::Sender::new(None),
            silent_shard_of: Mutex::default(),
        }
    }
}

impl FaultPlan {
    /// The next `times` calls of `verb` fail.
    pub(crate) fn next(&self, verb: Verb, fault: Fault, times: usize) {
        self.faults.lock().unwrap().push((verb, VecDeque::from(vec![fault; times])));
    }

    /// Every call of `verb` fails until [`heal`](Self::heal).
    pub(crate) fn always(&self, verb: Verb, fault: Fault) {
        self.standing.lock().unwrap().push((verb, fault));
    }

    pub(crate) fn heal(&self) {
        self.standing.lock().unwrap().clear();
    }

    /// Every call so far, with its number of jobs.
    pub(crate) fn calls(&self) -> Vec<(Verb, usize)> {
        self.calls.borrow().clone()
    }

    pub(crate) fn count(&self, verb: Verb) -> usize {
        self.calls.borrow().iter().filter(|(called, _)| *called == verb).count()
    }

    /// Completes when `verb` has been called `times` times in total.
    pub(crate) async fn called(&self, verb: Verb, times: usize) {
        let enough = |calls: &Vec<(Verb, usize)>| calls.iter().filter(|call| call.0 == verb).count() >= times;
        self.calls.subscribe().wait_for(enough).await.unwrap();
    }

    /// Completes when `verb` has been called with this many jobs.
    pub(crate) async fn called_about(&self, verb: Verb, jobs: usize) {
        self.calls.subscribe().wait_for(|calls| calls.contains(&(verb, jobs))).await.unwrap();
    }

    /// Completes when the calls so far, each with its number of jobs, are as expected.
    pub(crate) async fn called_such_that(&self, expected: impl Fn(&[(Verb, usize)]) -> bool) {
        self.calls.subscribe().wait_for(|calls| expected(calls)).await.unwrap();
    }

    /// The shard of this job does not answer calls about leases and settlements; all others do.
    pub(crate) fn silence_shard_of(&self, job: Option<&JobId>) {
        *self.silent_shard_of.lock().unwrap() = job.cloned();
    }

    pub(crate) fn is_in_silent_shard(&self, job: &JobId) -> bool {
        self.silent_shard_of.lock().unwrap().as_ref() == Some(job)
    }

    /// Locks a job, as an open transaction does.
    pub(crate) fn lock(&self, job: &JobId, lock: Lock) {
        self.locked.send_replace(Some((job.clone(), lock)));
    }

    /// Unlocks all jobs.
    pub(crate) fn unlock(&self) {
        self.locked.send_replace(None);
    }

    pub(crate) fn is_locked(&self, job: &JobId) -> bool {
        self.locked.borrow().as_ref().is_some_and(|(locked, _)| locked == job)
    }

    /// Fails or waits if one of the jobs is locked.
    pub(crate) async fn wait_for_locks(&self, settlements: &[Settlement]) -> Result<(), Error> {
        let stuck = settlements.iter().any(|settlement| self.is_locked(&settlement.lease.job));
        let lock = self.locked.borrow().as_ref().map(|(_, lock)| *lock);
        match lock.filter(|_| stuck) {
            Some(Lock::Refuses) => Err(unavailable()),
            Some(Lock::Delays) => {
                self.locked.subscribe().wait_for(Option::is_none).await.unwrap();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Performs a call as planned.
    pub(crate) async fn perform<T>(
        &self,
        (verb, jobs): (Verb, usize),
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let fault = self.fault(verb);
        self.calls.send_modify(|calls| calls.push((verb, jobs)));
        match fault {
            None => call.await,
            Some(Fault::Away) => Err(unavailable()),
            Some(Fault::Refused) => Err(Error::Invalid("planned".into())),
            Some(Fault::Silent) => pending().await,
            Some(Fault::Late) => {
                let answer = call.await;
                tokio::time::sleep(Duration::from_millis(300)).await;
                answer
            }
            Some(Fault::AnswerLost) => call.await.and(Err(lost())),
            Some(Fault::Unconfirmed) => call.await.and(Err(Error::Unconfirmed("planned".into()))),
        }
    }

    fn fault(&self, verb: Verb) -> Option<Fault> {
        let standing =
            self.standing.lock().unwrap().iter().find(|(v, _)| *v == verb).map(|(_, fault)| *fault);
        let mut faults = self.faults.lock().unwrap();
        standing.or_else(|| faults.iter_mut().filter(|(v, _)| *v == verb).find_map(|(_, f)| f.pop_front()))
    }
}

fn lost() -> Error {
    Error::Unanswered { message: "planned".into(), source: None }
}

pub(crate) fn unavailable() -> Error {
    Error::Unavailable { message: "planned".into(), source: None }
}
