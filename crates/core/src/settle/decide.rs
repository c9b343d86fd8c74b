//! The decision of what happens to a job: pure functions of its envelope and the outcome.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;

use super::{Change, NextJob, Outcome};
use crate::backoff::Backoff;
use crate::chain::{Continuation, JobLinks};
use crate::clock::Timestamp;
use crate::dead_letter::{DeadLetter, DeathCause, DeathReason, shorten};
use crate::envelope::{Edit, Envelope, MalformedEnvelope};
use crate::job::JobState;
use crate::lease::Lease;
use crate::name::JobId;
use crate::store::{JobRecord, NewJob};
use crate::workflow::{self, ActivityFailure, FailureKind, Timeout};

/// What a decision depends on besides the outcome.
#[derive(Debug, Clone, Copy)]
pub struct DecideContext {
    /// The store's time.
    pub now: Timestamp,
    /// The delays after failures.
    pub backoff: Backoff,
    /// Selects the jitter, in 0.0..1.0.
    pub random: f64,
}

/// After how many crashes of its worker an activity fails. A crash does not count as an attempt,
/// because the activity may not be its cause. But an activity that kills every worker must end.
const MAX_CRASHES: u64 = 5;

/// Decides the change for a job whose attempt ended with `outcome`.
pub fn decide(envelope: &Envelope, outcome: Outcome, context: DecideContext) -> Change {
    let change = change_for(envelope, outcome, context);
    change.unwrap_or_else(|error| bury_unchangeable(envelope, context.now, &error))
}

fn change_for(
    envelope: &Envelope,
    outcome: Outcome,
    context: DecideContext,
) -> Result<Change, MalformedEnvelope> {
    let DecideContext { now, .. } = context;
    Ok(match outcome {
        Outcome::Done(output) => finish(envelope, now, JobEnd::Done(output)),
        Outcome::Cancelled => finish(envelope, now, JobEnd::Cancelled(None)),
        Outcome::Discard(reason) => finish(envelope, now, JobEnd::Cancelled(Some(shorten(reason)))),
        Outcome::Continue(next) => Change::Continue(Box::new(next_job(envelope, *next, now))),
        Outcome::Commit(commit) => Change::Commit(commit),
        Outcome::NotifyRun(event) => match (envelope.requester(), event) {
            (Some(requester), Some(event)) => requester.notify(now, *event),
            _ => Change::Finish(None),
        },
        Outcome::Dead(cause) => {
            bury(envelope, Death { attempts: envelope.attempts().saturating_add(1), now, cause }, None)?
        }
        Outcome::Snooze(delay) => Change::Requeue { envelope: envelope.bytes().clone(), delay },
        Outcome::Postpone { error, after } => {
            let (error, times) = (shorten(error), u64::from(envelope.postponed()) + 1);
            let edits = [Edit::Text("last_error", &error), Edit::Number("postponed", times)];
            Change::Requeue { envelope: envelope.edit(&edits)?, delay: after }
        }
        // A settled job has no change left. If its lease is held nevertheless, the job is not lost.
        Outcome::HandedBack | Outcome::Settled(_) => {
            Change::Requeue { envelope: envelope.bytes().clone(), delay: Duration::ZERO }
        }
        Outcome::Retry { error, after } => {
            let delay = after.unwrap_or_else(|| retry_delay(envelope, context));
            retry_or_bury(envelope, now, FailedAttempt { error, delay, crashed: false, timeout: None })?
        }
        Outcome::TimedOut { what, error } => {
            let delay = retry_delay(envelope, context);
            retry_or_bury(envelope, now, FailedAttempt { error, delay, crashed: false, timeout: Some(what) })?
        }
    })
}

/// The change for a job whose attempt cannot be counted: it would be retried forever, so it ends.
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

/// The delay before the next attempt.
fn retry_delay(envelope: &Envelope, context: DecideContext) -> Duration {
    let DecideContext { backoff, random, .. } = context;
    envelope.backoff().unwrap_or(backoff).delay(envelope.attempts(), random)
}

/// The end of a job that neither runs again nor is dead.
enum JobEnd {
    Done(Bytes),
    Cancelled(Option<String>),
}

fn finish(envelope: &Envelope, now: Timestamp, end: JobEnd) -> Change {
    if let Some(requester) = envelope.requester() {
        return match end {
            JobEnd::Done(output) => workflow::done(requester, now, &output),
            JobEnd::Cancelled(reason) => workflow::cancelled(requester, now, reason),
        };
    }
    Change::Finish(match end {
        JobEnd::Done(output) => record(envelope, now, JobState::Done, output),
        JobEnd::Cancelled(reason) => record(envelope, now, JobState::Cancelled, Bytes::new())
            .map(|record| JobRecord { error: reason, ..record }),
    })
}

struct Death {
    attempts: u32,
    now: Timestamp,
    cause: DeathCause,
}

/// Moves a dead job to the dead letters. If a run waits for it, delivers the failure to the run
/// instead.
fn bury(envelope: &Envelope, death: Death, timeout: Option<Timeout>) -> Result<Change, MalformedEnvelope> {
    let Death { attempts, now, cause } = death;
    let Some(requester) = envelope.requester() else {
        return Ok(Change::Bury(DeadLetter::new(envelope, attempts, now, cause)?));
    };
    let message = cause.error.map_or_else(|| cause.reason.to_string(), shorten);
    let kind = timeout.map_or(FailureKind::Failed, FailureKind::TimedOut);
    Ok(workflow::failed(requester, now, ActivityFailure { message, kind, attempts }))
}

/// Decides the change for a job whose lease expired. Only a started attempt counts, because a job
/// in a worker's buffer did nothing wrong. There is no backoff: the job has already waited for a
/// whole lease.
pub fn decide_expired(envelope: &Envelope, started: bool, now: Timestamp) -> Change {
    if !started {
        return Change::Requeue { envelope: envelope.bytes().clone(), delay: Duration::ZERO };
    }
    crashed(envelope, now).unwrap_or_else(|error| bury_unchangeable(envelope, now, &error))
}

fn crashed(envelope: &Envelope, now: Timestamp) -> Result<Change, MalformedEnvelope> {
    let error = WORKER_DIED.to_owned();
    let crashes = u64::from(envelope.crashes()) + 1;
    if envelope.requester().is_some() && crashes < MAX_CRASHES {
        let edits = [Edit::Number("crashes", crashes), Edit::Text("last_error", &error)];
        return Ok(Change::Requeue { envelope: envelope.edit(&edits)?, delay: Duration::ZERO });
    }
    let failure = FailedAttempt { error, delay: Duration::ZERO, crashed: true, timeout: None };
    retry_or_bury(envelope, now, failure)
}

const WORKER_DIED: &str = "the worker died or lost its lease while the job was running";

const NEVER_STARTED: &str = "the job was taken, and its worker did not come back";

/// Decides the change for an at-most-once job whose lease expired: it does not run again. If its
/// result is kept, the record says that it was cancelled.
pub fn decide_abandoned(envelope: &Envelope, started: bool, now: Timestamp) -> Change {
    let reason = if started { WORKER_DIED } else { NEVER_STARTED };
    finish(envelope, now, JobEnd::Cancelled(Some(reason.to_owned())))
}

/// Decides the change for a job that arrives with all its attempts used, as other programs may
/// write one: it does not run. Returns `None` if it has attempts left.
pub fn decide_exhausted(envelope: &Envelope, now: Timestamp) -> Option<Change> {
    let attempts = envelope.attempts();
    (attempts >= envelope.max_attempts()).then(|| {
        let error = format!("it came with {attempts} of {} attempts used up", envelope.max_attempts());
        let cause = DeathCause { reason: DeathReason::MaxAttemptsExceeded, error: Some(error) };
        bury(envelope, Death { attempts, now, cause }, None)
            .unwrap_or_else(|error| bury_unchangeable(envelope, now, &error))
    })
}

/// Decides the change for bytes that are not an envelope: they go to the dead letters.
pub fn decide_malformed(lease: &Lease, raw: &[u8], error: &MalformedEnvelope, now: Timestamp) -> Change {
    Change::Bury(DeadLetter::from_malformed(&lease.job, raw, now, error))
}

struct FailedAttempt {
    error: String,
    delay: Duration,
    crashed: bool,
    timeout: Option<Timeout>,
}

fn retry_or_bury(
    envelope: &Envelope,
    now: Timestamp,
    failure: FailedAttempt,
) -> Result<Change, MalformedEnvelope> {
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
    bury(&last, Death { attempts, now, cause }, failure.timeout)
}

/// The next job of a chain. Its result is kept for a default time at least, because the starter of
/// the chain may wait for it.
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

/// The ids without repetitions.
pub(crate) fn distinct(ids: &[JobId]) -> Vec<JobId> {
    let mut seen = HashSet::new();
    ids.iter().filter(|id| seen.insert(*id)).cloned().collect()
}

/// The record of the end, if the job keeps its result.
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

    fn delivered(change: Change) -> String {
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
            let delivered = delivered(decide(&activity(0, 0), outcome, NOW));
            assert!(delivered.contains(part), "{delivered}");
            assert!(workflow::Entry::read(delivered.as_bytes()).is_ok());
        }
        let with_two_attempts = activity(0, 0).edit(&[Edit::Number("max_attempts", 2)]).unwrap();
        let Change::Requeue { delay, .. } = decide(&Envelope::read(with_two_attempts).unwrap(), retry(), NOW)
        else {
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
        assert!(delivered(decide_expired(&next, true, NOW.now)).contains("the worker died"));
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
