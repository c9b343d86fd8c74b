//! Ending a claim: from what a handler said to what a store has to do.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;

use crate::backoff::Backoff;
use crate::chain::{Continuation, Links};
use crate::clock::Timestamp;
use crate::dead::{Cause, DeadLetter, Reason, shorten};
use crate::envelope::{Edit, Envelope, Malformed};
use crate::job::{Event, IllegalMove, State};
use crate::lease::Lease;
use crate::name::{JobId, Queue};
use crate::store::{NewJob, Record};

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Well, with this output (JSON).
    Done(Bytes),
    /// Badly; try again, after this long or as the backoff says.
    Retry {
        /// What went wrong.
        error: String,
        /// When to try again, if the handler knows better than the backoff.
        after: Option<Duration>,
    },
    /// Not yet: run it again after this long, no attempt counted.
    Snooze(Duration),
    /// Not worth doing any more: forget it.
    Discard(String),
    /// Badly, and trying again is pointless.
    Dead(Cause),
    /// It was cancelled while it ran.
    Cancelled,
    /// Well, by continuing with another job.
    Continue(Box<Continuation>),
    /// It never got to run, or the worker is leaving: give it back untouched.
    HandedBack,
}

/// What a store does to a claimed job. Four effects are all there are; each frees the lease.
#[derive(Debug, Clone)]
pub enum Change {
    /// Remove it; keep the record for as long as it says.
    Finish(Option<Record>),
    /// Put the next step of its chain in its place.
    Continue(Box<Step>),
    /// Put it back with this envelope, ready after this long.
    Requeue {
        /// The envelope of the next attempt.
        envelope: Bytes,
        /// Zero: ready at once.
        delay: Duration,
    },
    /// Move it to the dead letters.
    Bury(DeadLetter),
}

/// The job that takes another's place in its chain.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where it goes.
    pub queue: Queue,
    /// The job; its id is the chain's with the next step.
    pub job: NewJob,
}

impl Change {
    /// What this does to the job, in the words of its state machine.
    pub fn event(&self) -> Event {
        match self {
            Self::Finish(Some(Record { state: State::Cancelled, .. })) => Event::Cancelled,
            Self::Finish(_) | Self::Continue(_) => Event::Finished,
            Self::Requeue { delay, .. } if delay.is_zero() => Event::Requeued,
            Self::Requeue { .. } => Event::Postponed,
            Self::Bury(_) => Event::Buried,
        }
    }

    /// Where a running job is after this change.
    pub fn state(&self) -> Result<State, IllegalMove> {
        State::Running.next(self.event())
    }
}

/// One claim to end, and how.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// Whose.
    pub lease: Lease,
    /// How.
    pub change: Change,
}

/// What a decision needs to know beside the outcome.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// The store's time.
    pub now: Timestamp,
    /// How long to wait after a failure.
    pub backoff: Backoff,
    /// Chooses the jitter: 0.0..1.0.
    pub random: f64,
}

/// Decides what becomes of a job whose attempt ended with `outcome`.
pub fn decide(envelope: &Envelope, outcome: Outcome, circumstances: Circumstances) -> Change {
    let Circumstances { now, backoff, random } = circumstances;
    match outcome {
        Outcome::Done(output) => Change::Finish(record(envelope, now, State::Done, output)),
        Outcome::Cancelled => Change::Finish(record(envelope, now, State::Cancelled, Bytes::new())),
        Outcome::Continue(next) => Change::Continue(Box::new(step(envelope, *next, now))),
        Outcome::Discard(why) => {
            let record = record(envelope, now, State::Cancelled, Bytes::new());
            Change::Finish(record.map(|record| Record { error: Some(shorten(why)), ..record }))
        }
        Outcome::Dead(cause) => {
            Change::Bury(DeadLetter::of(envelope, envelope.attempts().saturating_add(1), now, cause))
        }
        Outcome::Snooze(delay) => Change::Requeue { envelope: envelope.bytes().clone(), delay },
        Outcome::HandedBack => Change::Requeue { envelope: envelope.bytes().clone(), delay: Duration::ZERO },
        Outcome::Retry { error, after } => {
            let delay = after.unwrap_or_else(|| backoff.delay(envelope.attempts(), random));
            again_or_bury(envelope, now, Failure { error, delay, crashed: false })
        }
    }
}

/// Decides what becomes of a job whose lease ran out. Only an attempt that had started counts: a job that
/// died in a worker's buffer did nothing wrong. No backoff: nobody has had this job for a whole lease.
pub fn decide_expired(envelope: &Envelope, started: bool, now: Timestamp) -> Change {
    if !started {
        return Change::Requeue { envelope: envelope.bytes().clone(), delay: Duration::ZERO };
    }
    let error = "the worker died or lost its lease while the job was running".to_owned();
    again_or_bury(envelope, now, Failure { error, delay: Duration::ZERO, crashed: true })
}

/// Decides what becomes of an at-most-once job whose lease ran out: it does not run again, and if its result was to be
/// kept, that it has none is.
pub fn decide_forgotten(envelope: &Envelope, now: Timestamp) -> Change {
    let record = record(envelope, now, State::Cancelled, Bytes::new());
    let error = "the worker died or lost its lease while the job was running".to_owned();
    Change::Finish(record.map(|record| Record { error: Some(error), ..record }))
}

/// Buries bytes that are no envelope.
pub fn decide_malformed(lease: &Lease, raw: &[u8], error: &Malformed, now: Timestamp) -> Change {
    Change::Bury(DeadLetter::of_malformed(&lease.job, raw, now, error))
}

struct Failure {
    error: String,
    delay: Duration,
    crashed: bool,
}

fn again_or_bury(envelope: &Envelope, now: Timestamp, failure: Failure) -> Change {
    let attempts = envelope.attempts().saturating_add(1);
    let error = shorten(failure.error);
    let crashes = u64::from(envelope.crashes()) + u64::from(failure.crashed);
    let mut edits = vec![Edit::Number("attempts", attempts.into()), Edit::Text("last_error", &error)];
    if crashes > 0 {
        edits.push(Edit::Number("crashes", crashes));
    }
    let next = envelope.edit(&edits);
    if attempts < envelope.max_attempts() {
        return Change::Requeue { envelope: next, delay: failure.delay };
    }
    // The edit of a sound envelope is sound.
    let last = Envelope::read(next).unwrap_or_else(|_| envelope.clone());
    let cause = Cause { reason: Reason::MaxAttemptsExceeded, error: Some(error) };
    Change::Bury(DeadLetter::of(&last, attempts, now, cause))
}

/// The next job of a chain. Its result is kept at least for a while: somebody started this chain to see it end.
fn step(envelope: &Envelope, next: Continuation, now: Timestamp) -> Step {
    let id = envelope.id().at_step(envelope.id().step().saturating_add(1));
    let Continuation { queue, due, after, .. } = &next;
    let links = Links { after: distinct(after), dedup: None };
    let envelope = envelope.successor(&id, &next, now);
    Step { queue: queue.clone(), job: NewJob { id, envelope, due: *due, tracked: true, fresh: true, links } }
}

/// The same ids, each once.
pub(crate) fn distinct(ids: &[JobId]) -> Vec<JobId> {
    let mut seen = HashSet::new();
    ids.iter().filter(|id| seen.insert(*id)).cloned().collect()
}

/// The record of an end, if someone may come to ask for it.
fn record(envelope: &Envelope, now: Timestamp, state: State, output: Bytes) -> Option<Record> {
    let keep = envelope.keep_result()?;
    Some(Record { job: envelope.id().chain(), state, output, error: None, finished_at: now, keep })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Circumstances = Circumstances { now: Timestamp(0), backoff: Backoff::DEFAULT, random: 0.0 };

    fn envelope(attempts: u32) -> Envelope {
        let json =
            format!(r#"{{"job_id":"a","task_type":"t","attempts":{attempts},"max_attempts":3,"x":1}}"#);
        Envelope::read(json.into()).unwrap()
    }

    fn failed(attempts: u32) -> Change {
        decide(&envelope(attempts), Outcome::Retry { error: "no".into(), after: None }, NOW)
    }

    #[test]
    fn retries_until_the_attempts_are_used_up() {
        for (attempts, seconds) in [(0, 1), (1, 2)] {
            let Change::Requeue { envelope, delay } = failed(attempts) else { panic!() };
            assert_eq!(delay, Duration::from_secs(seconds));
            let next = Envelope::read(envelope).unwrap();
            assert_eq!(next.attempts(), attempts + 1);
        }
        let Change::Bury(letter) = failed(2) else { panic!() };
        assert_eq!(letter.reason, Reason::MaxAttemptsExceeded);
        assert_eq!(letter.envelope().unwrap().attempts(), 3);
        assert!(String::from_utf8_lossy(&letter.bytes).contains("\"x\":1"));
    }

    #[test]
    fn a_crash_counts_only_for_a_job_that_had_started() {
        let Change::Requeue { envelope: next, .. } = decide_expired(&envelope(0), true, NOW.now) else {
            panic!()
        };
        let next = Envelope::read(next).unwrap();
        assert_eq!((next.attempts(), next.crashes()), (1, 1));
        let Change::Requeue { envelope: next, .. } = decide_expired(&envelope(2), false, NOW.now) else {
            panic!()
        };
        assert_eq!(Envelope::read(next).unwrap().attempts(), 2);
        assert!(matches!(decide_expired(&envelope(2), true, NOW.now), Change::Bury(_)));
    }

    #[test]
    fn snoozing_and_handing_back_count_no_attempt() {
        for outcome in [Outcome::Snooze(Duration::from_secs(9)), Outcome::HandedBack] {
            let Change::Requeue { envelope: next, .. } = decide(&envelope(2), outcome, NOW) else { panic!() };
            assert_eq!(Envelope::read(next).unwrap().attempts(), 2);
        }
    }

    #[test]
    fn every_change_is_a_legal_move_of_a_running_job() {
        let outcomes = [
            Outcome::Done(Bytes::new()),
            Outcome::Retry { error: String::new(), after: None },
            Outcome::Snooze(Duration::ZERO),
            Outcome::Discard(String::new()),
            Outcome::Dead(Cause { reason: Reason::InvalidPayload, error: None }),
            Outcome::Cancelled,
            Outcome::HandedBack,
        ];
        for outcome in outcomes {
            assert!(decide(&envelope(0), outcome, NOW).state().is_ok());
        }
    }
}
