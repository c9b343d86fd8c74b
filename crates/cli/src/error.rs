//! Errors of commands: one line with the causes, a hint and the exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use tidemill::name::InvalidName;
use tidemill::{BuildError, Error, RunError, WaitError};

use crate::output::printable;

/// The exit code after invalid usage.
const EXIT_USAGE: u8 = 2;

/// An error that the command line itself raises.
#[derive(Debug)]
pub(crate) struct CliError {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl CliError {
    /// An error with exit code 1.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 1 }
    }

    /// An error of usage, with exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: EXIT_USAGE }
    }

    /// Adds a hint that says how to fix it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

/// Prints the error and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let mut stderr = io::stderr().lock();
    // A failed write to stderr cannot be reported anywhere.
    let _ = writeln!(stderr, "error: {}", one_line(error));
    if let Some(hint) = hint(error) {
        let _ = writeln!(stderr, "hint: {hint}");
    }
    ExitCode::from(code(error))
}

/// The error and its causes in one line, without control characters: errors quote stored data,
/// which must not control the terminal. Omits a cause that the error already quotes.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(|cause| cause.to_string().replace(['\n', '\r'], " ")) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    printable(&line)
}

fn code(error: &anyhow::Error) -> u8 {
    let of = |cause: &(dyn std::error::Error + 'static)| {
        let error = cause.downcast_ref::<CliError>().map(|error| error.code);
        // The source of a store error does not decide the code.
        let store = store_error(cause).map(|error| if error.is_invalid() { EXIT_USAGE } else { 1 });
        let invalid = cause.is::<InvalidName>() || cause.is::<BuildError>();
        error.or(store).or(invalid.then_some(EXIT_USAGE))
    };
    error.chain().find_map(of).unwrap_or(1)
}

fn hint(error: &anyhow::Error) -> Option<String> {
    let of = |cause: &(dyn std::error::Error + 'static)| {
        let own = cause.downcast_ref::<CliError>().and_then(|error| error.hint.clone());
        let store = store_error(cause).and_then(store_hint);
        let wait = cause.downcast_ref().and_then(wait_hint);
        let run = cause.downcast_ref().and_then(run_hint);
        own.or(store.or(wait).or(run).map(str::to_owned))
    };
    error.chain().find_map(of)
}

/// The store error in this cause. Transparent errors hide it from the chain of causes.
pub(crate) fn store_error<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    match (cause.downcast_ref(), cause.downcast_ref()) {
        (Some(RunError::Store(error)), _) | (_, Some(WaitError::Store(error))) => Some(error),
        _ => cause.downcast_ref(),
    }
}

fn store_hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::Unavailable { .. } => Some(
            "is the server running, and is the store's URL right? (--store, TIDEMILL_STORE or tidemill.toml)",
        ),
        Error::Unanswered { .. } => Some("it may have taken effect: check before you repeat it"),
        Error::Denied(_) => Some("check the rights of the user in the store's URL, or of the file"),
        _ => None,
    }
}

fn wait_hint(error: &WaitError) -> Option<&'static str> {
    match error {
        WaitError::Gone(_) => {
            Some("a job that ended is forgotten unless it was enqueued with --keep-result or --wait")
        }
        WaitError::Dead { .. } => {
            Some("`tidemill dlq show ID` shows it, `tidemill dlq redrive ID` tries again")
        }
        _ => None,
    }
}

fn run_hint(error: &RunError) -> Option<&'static str> {
    match error {
        RunError::NotFound(_) => {
            Some("`tidemill workflow list` shows the runs; an ended run is deleted after a while (--keep)")
        }
        RunError::TimedOut { .. } => Some("`tidemill workflow show RUN` says why it is not progressing"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_the_error_in_one_line_and_none_is_said_twice() {
        let source = io::Error::other("connection refused");
        let error = anyhow::Error::new(Error::unavailable("connecting to\n10.0.0.1", source));
        let said = "the store is not available: connecting to 10.0.0.1: connection refused";
        assert_eq!(one_line(&error), said);
        assert_eq!(one_line(&error.context(said)), said);
    }

    #[test]
    fn an_answer_that_was_lost_says_nothing_of_a_server_that_is_away() {
        let hint_to = |error: Error| hint(&anyhow::Error::new(error).context("cannot enqueue")).unwrap();
        let source = || Some(io::Error::other("broken pipe").into());
        let lost = hint_to(Error::Unanswered { message: "enqueue".into(), source: source() });
        assert!(lost.contains("may have taken effect") && !lost.contains("running"), "{lost}");
        assert!(hint_to(Error::Unavailable { message: "a".into(), source: source() }).contains("running"));
        let run = anyhow::Error::new(RunError::from(Error::Unanswered { message: "a".into(), source: None }));
        assert_eq!(hint(&run), Some(lost));
    }

    #[test]
    fn only_what_the_user_can_put_right_is_wrong_use() {
        assert_eq!(code(&Error::Invalid("no".into()).into()), EXIT_USAGE);
        assert_eq!(code(&anyhow::Error::new(CliError::usage("no")).context("while")), EXIT_USAGE);
        assert_eq!(code(&RunError::from(Error::Invalid("no".into())).into()), EXIT_USAGE);
        assert_eq!(code(&Error::NotFound("job a".into()).into()), 1);
    }
}
