//! The log of failed attempts: one warning each with the reason and the next try, at a limited rate
//! per kind.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidemill_core::settle::expired::RescuedDeath;
use tidemill_core::{DeadLetter, Envelope, Kind, Queue};
use tracing::warn;

/// The period of the limits below.
const LOG_WINDOW: Duration = Duration::from_secs(10);

/// How many failed attempts of a kind are logged per window: enough to see the cause, too few to
/// fill a disk.
const MAX_FAILURES: u32 = 5;

/// How many deaths of a kind are logged per window. A death is final, so nearly all are logged.
const MAX_DEATHS: u32 = 100;

/// How many kinds have a window of their own. Further kinds share one, because clients choose the
/// names.
const MAX_KINDS: usize = 256;

/// How much of an error is logged.
const MAX_ERROR_CHARS: usize = 500;

/// Logs failures, and counts those that exceed the limits.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    windows: Mutex<HashMap<Option<Kind>, LogWindow>>,
}

/// What was logged for a kind since the window began.
#[derive(Debug)]
struct LogWindow {
    begun: Instant,
    failures: LogCount,
    deaths: LogCount,
}

#[derive(Debug, Default)]
struct LogCount {
    logged: u32,
    omitted: u64,
}

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct FailedAttempt<'a> {
    pub(crate) envelope: &'a Envelope,
    pub(crate) queue: &'a Queue,
    pub(crate) error: &'a str,
}

impl FailureLog {
    /// Logs a failed attempt that is retried after `delay`.
    pub(crate) fn retried(&self, failure: &FailedAttempt<'_>, delay: Duration) {
        self.failed(failure, format_args!("next try in {delay:.1?}"));
    }

    /// Logs the last failed attempt of an activity.
    pub(crate) fn delivered(&self, failure: &FailedAttempt<'_>) {
        self.failed(failure, format_args!("no further try, its workflow run receives the failure"));
    }

    fn failed(&self, failure: &FailedAttempt<'_>, next: std::fmt::Arguments<'_>) {
        let FailedAttempt { envelope, queue, error } = failure;
        let (job, kind) = (envelope.id(), envelope.kind());
        if !self.admits(kind, |window| (&mut window.failures, MAX_FAILURES)) {
            return;
        }
        let (attempt, max_attempts) = (envelope.attempts().saturating_add(1), envelope.max_attempts());
        let error = shorten(error);
        warn!(%job, %kind, %queue, attempt, "attempt {attempt} of {max_attempts} failed: {error}; {next}");
    }

    /// Logs a job that was moved to the dead letters.
    pub(crate) fn died(&self, envelope: &Envelope, queue: &Queue, letter: &DeadLetter) {
        let (job, kind) = (envelope.id(), envelope.kind());
        if !self.admits(kind, |window| (&mut window.deaths, MAX_DEATHS)) {
            return;
        }
        let attempt = envelope.attempts().saturating_add(1);
        let error = shorten(letter.last_error.as_deref().unwrap_or("no error was reported"));
        warn!(%job, %kind, %queue, attempt, "job is dead after attempt {attempt} ({}): {error}", letter.reason);
    }

    /// Logs a job whose worker died, or lost its lease, in its last attempt.
    pub(crate) fn died_unattended(&self, death: &RescuedDeath<'_>) {
        let RescuedDeath { queue, envelope, letter } = death;
        match envelope {
            Some(envelope) => self.died(envelope, queue, letter),
            None => {
                let error = shorten(letter.last_error.as_deref().unwrap_or_default());
                warn!(job = %letter.job, %queue, "a message is not an envelope and was moved to the dead letters: {error}");
            }
        }
    }

    /// Logs how many failures were omitted in windows that have ended. Called periodically.
    pub(crate) fn report_omitted(&self) {
        let mut windows = self.lock();
        windows.retain(|kind, window| {
            let is_over = window.begun.elapsed() >= LOG_WINDOW;
            if is_over {
                window.report(kind.as_ref());
            }
            !is_over
        });
    }

    /// Whether one more may be logged; otherwise counts it as omitted.
    fn admits(&self, kind: &Kind, limit: impl FnOnce(&mut LogWindow) -> (&mut LogCount, u32)) -> bool {
        let mut windows = self.lock();
        let own = Some(kind.clone());
        let key = if windows.contains_key(&own) || windows.len() < MAX_KINDS { own } else { None };
        let window = windows.entry(key.clone()).or_insert_with(LogWindow::new);
        if window.begun.elapsed() >= LOG_WINDOW {
            // The window may be the shared one.
            window.report(key.as_ref());
            *window = LogWindow::new();
        }
        let (limit, max) = limit(window);
        if limit.logged < max {
            limit.logged += 1;
            return true;
        }
        limit.omitted += 1;
        false
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<Kind>, LogWindow>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FailureLog {
    fn drop(&mut self) {
        let windows = self.windows.get_mut().unwrap_or_else(PoisonError::into_inner);
        windows.iter().for_each(|(kind, window)| window.report(kind.as_ref()));
    }
}

impl LogWindow {
    fn new() -> Self {
        Self { begun: Instant::now(), failures: LogCount::default(), deaths: LogCount::default() }
    }

    fn report(&self, kind: Option<&Kind>) {
        let kind = kind.map_or("(other kinds)", Kind::as_str);
        let (failures, deaths) = (self.failures.omitted, self.deaths.omitted);
        if failures + deaths > 0 {
            warn!(%kind, failures, deaths, "{failures} more failed attempts and {deaths} more deaths were not logged");
        }
    }
}

/// The error in one line and at limited length; `job show` prints the whole text.
fn shorten(error: &str) -> String {
    let line = error.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_ERROR_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::sync::Arc;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Records the kinds that are logged.
    #[derive(Clone, Default)]
    struct LoggedKinds(Arc<Mutex<Vec<String>>>);

    impl Subscriber for LoggedKinds {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    impl Visit for LoggedKinds {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "kind" {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{value:?}"));
            }
        }
    }

    fn kind(name: &str) -> Kind {
        Kind::new(name).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn what_was_left_out_of_the_shared_window_is_not_said_of_one_kind() {
        let (log, logged) = (FailureLog::default(), LoggedKinds::default());
        let admits = |name: &str| log.admits(&kind(name), |window| (&mut window.failures, MAX_FAILURES));
        (0..MAX_KINDS).for_each(|number| assert!(admits(&format!("k{number}"))));
        let begun = Instant::now().checked_sub(LOG_WINDOW).unwrap_or_else(Instant::now);
        let failures = LogCount { logged: MAX_FAILURES, omitted: 3 };
        log.lock().insert(None, LogWindow { begun, failures, deaths: LogCount::default() });
        tracing::subscriber::with_default(logged.clone(), || assert!(admits("late")));
        let logged = logged.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(*logged, ["(other kinds)"]);
    }
}
