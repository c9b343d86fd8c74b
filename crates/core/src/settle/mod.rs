//! Ending a claim: from what a handler said to what a store has to do.

pub mod expired;

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;

use crate::backoff::Backoff;
use crate::chain::{Continuation, JobLinks};
use crate::clock::Timestamp;
use crate::dead_letter::{DeadLetter, DeathCause, DeathReason, shorten};
use crate::envelope::{Edit, Envelope, MalformedEnvelope};
use crate::job::{IllegalTransition, JobEvent, JobState};
use crate::lease::Lease;
use crate::name::{JobId, Queue};
use crate::store::runs::{CommitParams, Delivery};
use crate::store::{JobRecord, NewJob};
use crate::workflow::{self, ActivityFailure, FailureKind, Timeout};

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
    /// Badly: it took too long. Try again, as the backoff says.
    TimedOut {
        /// What took too long.
        what: Timeout,
        /// The same in words.
        error: String,
    },
    /// Not yet: run it again after this long, no attempt counted.
    Snooze(Duration),
    /// Not yet, for a reason that whoever looks at the job should see: again after this long, no attempt counted.
    Postpone {
        /// Why not.
        error: String,
        /// When to try again.
        after: Duration,
    },
    /// Not worth doing any more: forget it.
    Discard(String),
    /// Badly, and trying again is pointless.
    Dead(DeathCause),
    /// It was cancelled while it ran.
    Cancelled,
    /// Well, by continuing with another job.
    Continue(Box<Continuation>),
    /// It was a run's task, and this is what it did.
    Commit(Box<CommitParams>),
    /// Well, and the run that waits for it is told this, if anything.
    NotifyRun(Option<Box<workflow::RunEvent>>),
    /// It never got to run, or the worker is leaving: give it back untouched.
    HandedBack,
}

impl Outcome {
    /// Whether the work is done.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Continue(_) | Self::Commit(_) | Self::NotifyRun(_))
    }
}

/// What a store does to a claimed job. Six effects are all there are; each frees the lease.
#[derive(Debug, Clone)]
pub enum Change {
    /// Remove it; keep the record for as long as it says.
    Finish(Option<JobRecord>),
    /// Put the next step of its chain in its place.
    Continue(Box<NextJob>),
    /// It was a run's task: remove it and write down what it did.
    Commit(Box<CommitParams>),
    /// Remove it, and tell a run how it ended; nobody, if the run has ended.
    Deliver(Box<Delivery>),
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
pub struct NextJob {
    /// Where it goes.
    pub queue: Queue,
    /// The job; its id is the chain's with the next step.
    pub job: NewJob,
}

impl Change {
    /// What this does to the job, in the words of its state machine.
    pub fn event(&self) -> JobEvent {
        match self {
            Self::Finish(Some(JobRecord { state: JobState::Cancelled, .. })) => JobEvent::Cancelled,
            Self::Finish(_) | Self::Continue(_) | Self::Commit(_) | Self::Deliver(_) => JobEvent::Finished,
            Self::Requeue { delay, .. } if delay.is_zero() => JobEvent::Requeued,
            Self::Requeue { .. } => JobEvent::Postponed,
            Self::Bury(_) => JobEvent::Buried,
        }
    }

    /// Where a running job is after this change.
    pub fn state(&self) -> Result<JobState, IllegalTransition> {
        JobState::Running.next(self.event())
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
pub struct DecideContext {
    /// The store's time.
    pub now: Timestamp,
    /// How long to wait after a failure.
    pub backoff: Backoff,
    /// Chooses the jitter: 0.0..1.0.
    pub random: f64,
}

/// How often a worker may die over an activity. That is no fault of the activity's, so it does not count among its
/// attempts; but one that kills whoever runs it must end some time.
const MAX_CRASHES: u64 = 5;

/// Decides what becomes of a job whose attempt ended with `outcome`.
pub fn decide(envelope: &Envelope, outcome: Outcome, circumstances: DecideContext) -> Change {
    let change = change_for(envelope, outcome, circumstances);
    change.unwrap_or_else(|error| bury_unchangeable(envelope, circumstances.now, &error))
}

fn change_for(
    envelope: &Envelope,
    outcome: Outcome,
    circumstances: DecideContext,
) -> Result<Change, MalformedEnvelope> {
    let DecideContext { now, .. } = circumstances;
    Ok(match outcome {
        Outcome::Done(output) => finish(envelope, now, CleanEnd::Done(output)),
        Outcome::Cancelled => finish(envelope, now, CleanEnd::Cancelled(None)),
        Outcome::Discard(why) => finish(envelope, now, CleanEnd::Cancelled(Some(shorten(why)))),
        Outcome::Continue(next) => Change::Continue(Box::new(next_job(envelope, *next, now))),
        Outcome::Commit(commit) => Change::Commit(commit),
        Outcome::NotifyRun(event) => match (envelope.requester(), event) {
            (Some(requester), Some(event)) => requester.notify(now, *event),
            _ => Change::Finish(None),
        },
        Outcome::Dead(cause) => {
            bury(envelope, DeadEnd { attempts: envelope.attempts().saturating_add(1), now, cause }, None)?
        }
        Outcome::Snooze(delay) => Change::Requeue { envelope: envelope.bytes().clone(), delay },
        Outcome::Postpone { error, after } => {
            let (error, times) = (shorten(error), u64::from(envelope.postponed()) + 1);
            let edits = [Edit::Text("last_error", &error), Edit::Number("postponed", times)];
            Change::Requeue { envelope: envelope.edit(&edits)?, delay: after }
        }
        Outcome::HandedBack => Change::Requeue { envelope: envelope.bytes().clone(), delay: Duration::ZERO },
        Outcome::Retry { error, after } => {
            let delay = after.unwrap_or_else(|| retry_delay(envelope, circumstances));
            retry_or_bury(envelope, now, Failure { error, delay, crashed: false, timeout: None })?
        }
        Outcome::TimedOut { what, error } => {
            let delay = retry_delay(envelope, circumstances);
            retry_or_bury(envelope, now, Failure { error, delay, crashed: false, timeout: Some(what) })?
        }
    })
}

/// An attempt that cannot be counted is the last: the job would come back for ever.
fn bury_unchangeable(envelope: &Envelope, now: Timestamp, error: &MalformedEnvelope) -> Change {
    let attempts = envelope.attempts().saturating_add(1);
    match envelope.requester() {
        Some(requester) => {
            let failure = ActivityFailure { message: error.to_string(), kind: FailureKind::Failed, attempts };
            workflow::failed(requester, now, failure)
        }
        None => Change::Bury(DeadLetter::from_malformed(envelope.id(), envelope.bytes(), now, error)),
    }
}

/// How long a job rests before its next attempt.
fn retry_delay(envelope: &Envelope, circumstances: DecideContext) -> Duration {
    let DecideContext { backoff, random, .. } = circumstances;
    envelope.backoff().unwrap_or(backoff).delay(envelope.attempts(), random)
}

/// How a job ended that will not run again and is not dead.
enum CleanEnd {
    Done(Bytes),
    Cancelled(Option<String>),
}

fn finish(envelope: &Envelope, now: Timestamp, end: CleanEnd) -> Change {
    if let Some(requester) = envelope.requester() {
        return match end {
            CleanEnd::Done(output) => workflow::done(requester, now, &output),
            CleanEnd::Cancelled(why) => workflow::cancelled(requester, now, why),
        };
    }
    Change::Finish(match end {
        CleanEnd::Done(output) => record(envelope, now, JobState::Done, output),
        CleanEnd::Cancelled(why) => record(envelope, now, JobState::Cancelled, Bytes::new())
            .map(|record| JobRecord { error: why, ..record }),
    })
}

struct DeadEnd {
    attempts: u32,
    now: Timestamp,
    cause: DeathCause,
}

/// A dead job goes to the dead letters, but for one that a run waits for: the run is told, and knows what to do.
fn bury(envelope: &Envelope, death: DeadEnd, timeout: Option<Timeout>) -> Result<Change, MalformedEnvelope> {
    let DeadEnd { attempts, now, cause } = death;
    let Some(requester) = envelope.requester() else {
        return Ok(Change::Bury(DeadLetter::new(envelope, attempts, now, cause)?));
    };
    let message = cause.error.map_or_else(|| cause.reason.to_string(), shorten);
    let kind = timeout.map_or(FailureKind::Failed, FailureKind::TimedOut);
    Ok(workflow::failed(requester, now, ActivityFailure { message, kind, attempts }))
}

/// Decides what becomes of a job whose lease ran out. Only an attempt that had started counts: a job that
/// died in a worker's buffer did nothing wrong. No backoff: nobody has had this job for a whole lease.
pub fn decide_expired(envelope: &Envelope, started: bool, now: Timestamp) -> Change {
    if !started {
        return Change::Requeue { envelope: envelope.bytes().clone(), delay: Duration::ZERO };
    }
    crashed(envelope, now).unwrap_or_else(|error| bury_unchangeable(envelope, now, &error))
}

fn crashed(envelope: &Envelope, now: Timestamp) -> Result<Change, MalformedEnvelope> {
    let error = DIED.to_owned();
    let crashes = u64::from(envelope.crashes()) + 1;
    if envelope.requester().is_some() && crashes < MAX_CRASHES {
        let edits = [Edit::Number("crashes", crashes), Edit::Text("last_error", &error)];
        return Ok(Change::Requeue { envelope: envelope.edit(&edits)?, delay: Duration::ZERO });
    }
    let failure = Failure { error, delay: Duration::ZERO, crashed: true, timeout: None };
    retry_or_bury(envelope, now, failure)
}

const DIED: &str = "the worker died or lost its lease while the job was running";

const NOT_BEGUN: &str = "the job was taken, and its worker did not come back";

/// Decides what becomes of an at-most-once job whose lease ran out: it does not run again, and if its result was to be
/// kept, that it has none is.
pub fn decide_abandoned(envelope: &Envelope, started: bool, now: Timestamp) -> Change {
    let reason = if started { DIED } else { NOT_BEGUN };
    finish(envelope, now, CleanEnd::Cancelled(Some(reason.to_owned())))
}

/// Decides what becomes of a job that arrives with its attempts used up, as other programs may write one: it does not run.
/// Nothing, if it has attempts left.
pub fn decide_exhausted(envelope: &Envelope, now: Timestamp) -> Option<Change> {
    let attempts = envelope.attempts();
    (attempts >= envelope.max_attempts()).then(|| {
        let error = format!("it came with {attempts} of {} attempts used up", envelope.max_attempts());
        let cause = DeathCause { reason: DeathReason::MaxAttemptsExceeded, error: Some(error) };
        bury(envelope, DeadEnd { attempts, now, cause }, None)
            .unwrap_or_else(|error| bury_unchangeable(envelope, now, &error))
    })
}

/// Buries bytes that are no envelope.
pub fn decide_malformed(lease: &Lease, raw: &[u8], error: &MalformedEnvelope, now: Timestamp) -> Change {
    Change::Bury(DeadLetter::from_malformed(&lease.job, raw, now, error))
}

struct Failure {
    error: String,
    delay: Duration,
    crashed: bool,
    timeout: Option<Timeout>,
}

fn retry_or_bury(envelope: &Envelope, now: Timestamp, failure: Failure) -> Result<Change, MalformedEnvelope> {
    let attempts = envelope.attempts().saturating_add(1);
    let error = shorten(failure.error);
    let crashes = u64::from(envelope.crashes()) + u64::from(failure.crashed);
    let mut edits = vec![Edit::Number("attempts", attempts.into()), Edit::Text("last_error", &error)];
    if crashes > 0 {
        edits.push(Edit::Number("crashes", crashes));
    }
    let next = envelope.edit(&edits)?;
    let is_poison = envelope.requester().is_some() && failure.crashed;
    if attempts < envelope.max_attempts() && !is_poison {
        return Ok(Change::Requeue { envelope: next, delay: failure.delay });
    }
    let last = Envelope::read(next)?;
    let cause = DeathCause { reason: DeathReason::MaxAttemptsExceeded, error: Some(error) };
    bury(&last, DeadEnd { attempts, now, cause }, failure.timeout)
}

/// The next job of a chain. Its result is kept at least for a while: somebody started this chain to see it end.
fn next_job(envelope: &Envelope, next: Continuation, now: Timestamp) -> NextJob {
    let id = envelope.id().at_step(envelope.id().step().saturating_add(1));
    let Continuation { queue, due, after, .. } = &next;
    let links = JobLinks { after: distinct(after), dedup: None };
    let envelope = envelope.successor(&id, &next, now);
    NextJob {
        queue: queue.clone(),
        job: NewJob { id, envelope, due: *due, tracked: true, generated_id: true, links },
    }
}

/// The same ids, each once.
pub(crate) fn distinct(ids: &[JobId]) -> Vec<JobId> {
    let mut seen = HashSet::new();
    ids.iter().filter(|id| seen.insert(*id)).cloned().collect()
}

/// The record of an end, if someone may come to ask for it.
fn record(envelope: &Envelope, now: Timestamp, state: JobState, output: Bytes) -> Option<JobRecord> {
    let keep = envelope.keep_result()?;
    Some(JobRecord { job: envelope.id().chain(), state, output, error: None, finished_at: now, keep })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: DecideContext = DecideContext { now: Timestamp(0), backoff: Backoff::DEFAULT, random: 0.0 };

    fn envelope(attempts: u32) -> Envelope {
        let json =
            format!(r#"{{"job_id":"a","task_type":"t","attempts":{attempts},"max_attempts":3,"x":1}}"#);
        Envelope::read(json.into()).unwrap()
    }

    fn failed(attempts: u32) -> Change {
        decide(&envelope(attempts), Outcome::Retry { error: "no".into(), after: None }, NOW)
    }

    #[test]
    fn a_job_that_arrives_with_its_attempts_used_up_is_dead() {
        assert!(decide_exhausted(&envelope(2), NOW.now).is_none());
        let Some(Change::Bury(letter)) = decide_exhausted(&envelope(3), NOW.now) else { panic!() };
        assert_eq!(letter.reason, DeathReason::MaxAttemptsExceeded);
        assert_eq!(letter.envelope().unwrap().attempts(), 3);
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
        assert_eq!(letter.reason, DeathReason::MaxAttemptsExceeded);
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

    fn activity(attempts: u32, crashes: u32) -> Envelope {
        let json = format!(
            r#"{{"job_id":"r!4","task_type":"t","attempts":{attempts},"max_attempts":1,"crashes":{crashes},
                "run":"r","seq":4,"backoff_ms":[7000,9000,0]}}"#
        );
        Envelope::read(json.into()).unwrap()
    }

    fn told(change: Change) -> String {
        let Change::Deliver(delivery) = change else { panic!("{change:?}") };
        assert_eq!((delivery.run.as_str(), delivery.seq), ("r", Some(4)));
        String::from_utf8(delivery.entry.bytes.to_vec()).unwrap()
    }

    #[test]
    fn a_run_is_told_how_its_activity_ended_and_no_letter_is_written() {
        let retry = || Outcome::Retry { error: "no".into(), after: None };
        let timed_out = Outcome::TimedOut { what: Timeout::Heartbeat, error: "silent".into() };
        for (outcome, part) in [
            (Outcome::Done(Bytes::from_static(b"7")), r#"{"seq":4,"result":{"ok":7}}"#),
            (retry(), r#""message":"no","kind":"failed","attempts":1"#),
            (timed_out, r#""kind":{"timed_out":"heartbeat"}"#),
            (Outcome::Cancelled, r#""kind":"cancelled""#),
            (
                Outcome::Dead(DeathCause { reason: DeathReason::InvalidPayload, error: None }),
                "invalid_payload",
            ),
        ] {
            let told = told(decide(&activity(0, 0), outcome, NOW));
            assert!(told.contains(part), "{told}");
            assert!(workflow::Entry::read(told.as_bytes()).is_ok());
        }
        let patient = activity(0, 0).edit(&[Edit::Number("max_attempts", 2)]).unwrap();
        let Change::Requeue { delay, .. } = decide(&Envelope::read(patient).unwrap(), retry(), NOW) else {
            panic!()
        };
        assert_eq!(delay, Duration::from_secs(7));
    }

    #[test]
    fn the_death_of_a_worker_is_no_failure_of_the_activity_unless_it_happens_every_time() {
        let Change::Requeue { envelope: next, .. } = decide_expired(&activity(0, 3), true, NOW.now) else {
            panic!()
        };
        let next = Envelope::read(next).unwrap();
        assert_eq!((next.attempts(), next.crashes()), (0, 4));
        assert!(told(decide_expired(&next, true, NOW.now)).contains("the worker died"));
    }

    #[test]
    fn snoozing_and_handing_back_count_no_attempt() {
        for outcome in [Outcome::Snooze(Duration::from_secs(9)), Outcome::HandedBack] {
            let Change::Requeue { envelope: next, .. } = decide(&envelope(2), outcome, NOW) else { panic!() };
            assert_eq!(Envelope::read(next).unwrap().attempts(), 2);
        }
        let postponed = Outcome::Postpone { error: "blocked".into(), after: Duration::from_secs(9) };
        let Change::Requeue { envelope: next, .. } = decide(&envelope(2), postponed, NOW) else { panic!() };
        assert!(String::from_utf8_lossy(&next).contains(r#""last_error":"blocked""#));
        let next = Envelope::read(next).unwrap();
        assert_eq!((next.attempts(), next.postponed()), (2, 1));
    }

    #[test]
    fn every_change_is_a_legal_move_of_a_running_job() {
        let outcomes = [
            Outcome::Done(Bytes::new()),
            Outcome::Retry { error: String::new(), after: None },
            Outcome::Snooze(Duration::ZERO),
            Outcome::Postpone { error: String::new(), after: Duration::ZERO },
            Outcome::Discard(String::new()),
            Outcome::Dead(DeathCause { reason: DeathReason::InvalidPayload, error: None }),
            Outcome::Cancelled,
            Outcome::HandedBack,
        ];
        for outcome in outcomes {
            assert!(decide(&envelope(0), outcome, NOW).state().is_ok());
        }
    }
}
