//! The ways in which a handler can end without an output.

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use tidemill_core::dead_letter::DeathCause;
use tidemill_core::settle::Outcome;

/// What a handler returns instead of an output.
///
/// Any error converts into [`Fail::Retry`], so `?` on an ordinary error means "try again". `Fail`
/// is not an error type itself: it is an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fail {
    /// The attempt failed; retry until the attempts are used up.
    Retry {
        /// The error.
        error: String,
        /// The delay before the retry, if not by the job's backoff.
        after: Option<Duration>,
    },
    /// Run again after this delay. No attempt is counted.
    Snooze(Duration),
    /// Run again after this delay and show `error` on the job. No attempt is counted.
    Postpone {
        /// Why the job cannot run now.
        error: String,
        /// The delay.
        after: Duration,
    },
    /// Remove the job without running it again.
    Discard(String),
    /// Move the job to the dead letters: retries are pointless.
    Dead {
        /// The reason as a single word, for counters.
        reason: String,
        /// The error.
        error: String,
    },
}

impl Fail {
    /// Retries after the job's backoff.
    pub fn retry(error: impl Display) -> Self {
        Self::Retry { error: error.to_string(), after: None }
    }

    /// Retries after `delay`.
    pub fn retry_after(error: impl Display, delay: Duration) -> Self {
        Self::Retry { error: error.to_string(), after: Some(delay) }
    }

    /// Runs again after `delay` without counting an attempt.
    pub fn snooze(delay: Duration) -> Self {
        Self::Snooze(delay)
    }

    /// Runs again after `delay` without counting an attempt; the job shows the error.
    pub fn postpone(error: impl Display, delay: Duration) -> Self {
        Self::Postpone { error: error.to_string(), after: delay }
    }

    /// Removes the job.
    pub fn discard(reason: impl Display) -> Self {
        Self::Discard(reason.to_string())
    }

    /// Moves the job to the dead letters.
    pub fn dead(reason: impl Display, error: impl Display) -> Self {
        Self::Dead { reason: reason.to_string(), error: error.to_string() }
    }
}

impl<E: Error> From<E> for Fail {
    fn from(error: E) -> Self {
        Self::Retry { error: chain(&error), after: None }
    }
}

impl From<Fail> for Outcome {
    fn from(fail: Fail) -> Self {
        match fail {
            Fail::Retry { error, after } => Self::Retry { error, after },
            Fail::Snooze(delay) => Self::Snooze(delay),
            Fail::Postpone { error, after } => Self::Postpone { error, after },
            Fail::Discard(reason) => Self::Discard(reason),
            Fail::Dead { reason, error } => {
                let Ok(reason) = reason.parse();
                Self::Dead(DeathCause { reason, error: Some(error) })
            }
        }
    }
}

/// The error and its sources in one line: a dead letter stores nothing else.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<i32, Fail> {
        Ok(text.parse::<i32>()?)
    }

    #[test]
    fn a_question_mark_on_an_ordinary_error_means_try_again() {
        let fail = parse("x").unwrap_err();
        assert_eq!(fail, Fail::retry("invalid digit found in string"));
    }

    #[test]
    fn the_causes_of_an_error_are_kept() {
        let error = tidemill_core::Error::unavailable("claiming", std::io::Error::other("refused"));
        assert_eq!(Fail::from(error), Fail::retry("the store is not available: claiming: refused"));
    }
}
