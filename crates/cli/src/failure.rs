//! How a command fails: in one line, with its causes, a hint where there is one, and the right exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use tidemill::name::InvalidName;
use tidemill::{BuildError, Error, RunError, WaitError};

use crate::output::printable;

/// The exit code of a command that was used wrongly.
const WRONG_USE: u8 = 2;

/// A failure of the command line's own making.
#[derive(Debug)]
pub(crate) struct Complaint {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl Complaint {
    /// What was asked cannot be done.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 1 }
    }

    /// What was asked makes no sense.
    pub(crate) fn wrong_use(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: WRONG_USE }
    }

    /// Says what to do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Complaint {}

/// Tells the user, and returns what to tell the shell.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let mut stderr = io::stderr().lock();
    // There is nobody left to tell if this fails.
    let _ = writeln!(stderr, "error: {}", line(error));
    if let Some(hint) = hint(error) {
        let _ = writeln!(stderr, "hint: {hint}");
    }
    ExitCode::from(code(error))
}

/// The error and its causes, without control characters: errors quote stored data, which must not drive the terminal.
/// A cause that its error has already quoted is not said twice.
fn line(error: &anyhow::Error) -> String {
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
        let complaint = cause.downcast_ref::<Complaint>().map(|complaint| complaint.code);
        // A store's error may have another one as its cause, which does not count.
        let store = of_store(cause).map(|error| if let Error::Invalid(_) = error { WRONG_USE } else { 1 });
        let invalid = cause.is::<InvalidName>() || cause.is::<BuildError>();
        complaint.or(store).or(invalid.then_some(WRONG_USE))
    };
    error.chain().find_map(of).unwrap_or(1)
}

fn hint(error: &anyhow::Error) -> Option<String> {
    let of = |cause: &(dyn std::error::Error + 'static)| {
        let own = cause.downcast_ref::<Complaint>().and_then(|complaint| complaint.hint.clone());
        let store = of_store(cause).and_then(store_hint);
        let wait = cause.downcast_ref().and_then(wait_hint);
        let run = cause.downcast_ref().and_then(run_hint);
        own.or(store.or(wait).or(run).map(str::to_owned))
    };
    error.chain().find_map(of)
}

/// What a store said. An error that shows it as its own hides it from the chain of causes.
pub(crate) fn of_store<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
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
        Error::Unanswered { .. } => Some("it may have taken effect: look before you do it again"),
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
        RunError::NotFound(_) => Some(
            "`tidemill workflow list` shows the runs there are; one that ended is forgotten after a while (--keep)",
        ),
        RunError::TimedOut { .. } => Some("`tidemill workflow show RUN` says why it is not moving"),
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
        assert_eq!(line(&error), said);
        assert_eq!(line(&error.context(said)), said);
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
        assert_eq!(code(&Error::Invalid("no".into()).into()), WRONG_USE);
        assert_eq!(code(&anyhow::Error::new(Complaint::wrong_use("no")).context("while")), WRONG_USE);
        assert_eq!(code(&RunError::from(Error::Invalid("no".into())).into()), WRONG_USE);
        assert_eq!(code(&Error::NotFound("job a".into()).into()), 1);
    }
}
