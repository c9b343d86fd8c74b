//! How a handler says that it did not succeed, and what should happen next.

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use tidemill_core::dead_letter::DeathCause;
use tidemill_core::settle::Outcome;

/// What a handler returns instead of an output.
///
/// Any error converts into [`Fail::Retry`], so `?` on an ordinary error means "try again". `Fail` is no
/// error type itself: it is an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fail {
    /// It went wrong; try again until the attempts are used up.
    Retry {
        /// What went wrong.
        error: String,
        /// When to try again, if the handler knows better than the job's backoff.
        after: Option<Duration>,
    },
    /// Not yet: run it again after this long. No attempt is counted.
    Snooze(Duration),
    /// Not yet, for a reason that whoever looks at the job should see: again after this long. No attempt is counted.
    Postpone {
        /// Why not.
        error: String,
        /// When to try again.
        after: Duration,
    },
    /// Not worth doing any more: forget the job.
    Discard(String),
    /// Trying again is pointless: to the dead letters.
    Dead {
        /// Why, in a word that can be counted.
        reason: String,
        /// What exactly went wrong.
        error: String,
    },
}

impl Fail {
    /// Tries again when the job's backoff says.
    pub fn retry(error: impl Display) -> Self {
        Self::Retry { error: error.to_string(), after: None }
    }

    /// Tries again after `delay`.
    pub fn retry_after(error: impl Display, delay: Duration) -> Self {
        Self::Retry { error: error.to_string(), after: Some(delay) }
    }

    /// Runs again after `delay` without counting an attempt.
    pub fn snooze(delay: Duration) -> Self {
        Self::Snooze(delay)
    }

    /// Runs again after `delay` without counting an attempt; the job shows why.
    pub fn postpone(error: impl Display, delay: Duration) -> Self {
        Self::Postpone { error: error.to_string(), after: delay }
    }

    /// Forgets the job.
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

/// The error and all its causes in one line: whoever reads a dead letter has nothing else.
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
