//! The outcome of a job from the exit of its program: 0 is done, 10 continues with another job, 65
//! is dead, everything else is retried.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tidemill::chain::Continuation;
use tidemill::dead_letter::DeathCause;
use tidemill::settle::Outcome;
use tidemill::store::Due;
use tidemill::{DeathReason, JobId, Kind, QueueName};

use super::pipes::{MAX_OUTPUT_BYTES, PipeOutput};

/// EX_DATAERR of sysexits.h: the input is wrong, so a retry cannot help.
const EXIT_DATA_ERROR: i32 = 65;

/// The job continues with the job on stdout.
const EXIT_CONTINUE: i32 = 10;

/// A reason is a short label that can be counted.
const MAX_REASON_CHARS: usize = 128;

/// Decides the outcome. The output counts only if the job's result is kept.
pub(super) fn from_exit(status: ExitStatus, pipes: PipeOutput, kept: bool) -> Outcome {
    let error_output = String::from_utf8_lossy(&pipes.error_output).trim().to_owned();
    match status.code() {
        Some(0) if !kept => Outcome::Done(Bytes::new()),
        Some(0) if pipes.overflowed => Outcome::Dead(output_too_long()),
        Some(0) => Outcome::Done(output(&pipes.output)),
        Some(EXIT_CONTINUE) => continues(&pipes.output),
        Some(EXIT_DATA_ERROR) => Outcome::Dead(rejected_cause(error_output)),
        _ if error_output.is_empty() => Outcome::Retry { error: describe(status), after: None },
        _ => Outcome::Retry { error: error_output, after: None },
    }
}

/// JSON unchanged; other text as a JSON string.
fn output(written: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(written);
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Bytes::from_static(b"null");
    }
    if serde_json::from_str::<&RawValue>(trimmed).is_ok() {
        return Bytes::copy_from_slice(trimmed.as_bytes());
    }
    let line = text.strip_suffix('\n').unwrap_or(&text);
    serde_json::Value::from(line.strip_suffix('\r').unwrap_or(line)).to_string().into()
}

/// The output of a program that continues: `{"kind": "ship", "payload": {…}, "queue": "default",
/// "delay_ms": 0, "after": ["chain"]}`. Only the kind is required.
#[derive(Deserialize)]
struct ContinueOutput {
    kind: String,
    queue: Option<String>,
    payload: Option<Box<RawValue>>,
    delay_ms: Option<u64>,
    #[serde(default)]
    after: Vec<String>,
}

fn continues(written: &[u8]) -> Outcome {
    match continuation(written) {
        Ok(next) => Outcome::Continue(Box::new(next)),
        Err(error) => {
            let error =
                format!("the program exited with 10, but its output is not a valid continuation: {error}");
            Outcome::Dead(DeathCause {
                reason: DeathReason::Other("invalid_output".to_owned()),
                error: Some(error),
            })
        }
    }
}

fn continuation(written: &[u8]) -> anyhow::Result<Continuation> {
    let ContinueOutput { kind, queue, payload, delay_ms, after } = serde_json::from_slice(written)?;
    let queue = QueueName::new(queue.as_deref().unwrap_or("default"))?;
    let payload = payload.unwrap_or_else(|| RawValue::NULL.to_owned());
    let mut next = Continuation::untyped(Kind::new(&kind)?, queue, &payload);
    next.due = delay_ms.filter(|ms| *ms > 0).map_or(Due::Now, |ms| Due::In(Duration::from_millis(ms)));
    next.after = after.iter().map(|id| JobId::new(id)).collect::<Result<_, _>>()?;
    Ok(next)
}

fn rejected_cause(error_output: String) -> DeathCause {
    let last = error_output.lines().last().unwrap_or_default().trim();
    let reason =
        if last.is_empty() { "rejected".to_owned() } else { last.chars().take(MAX_REASON_CHARS).collect() };
    DeathCause {
        reason: DeathReason::Other(reason),
        error: (!error_output.is_empty()).then_some(error_output),
    }
}

/// Dead, because a retry would repeat finished work and produce the same output.
fn output_too_long() -> DeathCause {
    let error = format!("the program wrote more than {MAX_OUTPUT_BYTES} bytes of output");
    DeathCause { reason: DeathReason::Other("invalid_output".to_owned()), error: Some(error) }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the program ended with exit code {code}"),
        (None, Some(signal)) => format!("the program was killed by signal {signal}"),
        (None, None) => format!("the program ended: {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, stderr: &str) -> Outcome {
        let pipes = PipeOutput { error_output: stderr.into(), ..PipeOutput::default() };
        from_exit(ExitStatus::from_raw(code << 8), pipes, true)
    }

    #[test]
    fn output_is_json_or_becomes_a_text() {
        let cases = [
            ("{\"n\": 1}\n", "{\"n\": 1}"),
            (" 12 ", "12"),
            ("hello\n", "\"hello\""),
            ("two\nlines\n", "\"two\\nlines\""),
            ("", "null"),
            ("{\"half\":", "\"{\\\"half\\\":\""),
        ];
        for (written, expected) in cases {
            assert_eq!(output(written.as_bytes()), expected.as_bytes(), "{written:?}");
        }
    }

    #[test]
    fn the_exit_code_decides_and_stderr_explains() {
        let retry = |error: &str| Outcome::Retry { error: error.to_owned(), after: None };
        assert_eq!(ended(1, "first\nlast\n"), retry("first\nlast"));
        assert_eq!(ended(3, ""), retry("the program ended with exit code 3"));
        assert_eq!(
            from_exit(ExitStatus::from_raw(9), PipeOutput::default(), true),
            retry("the program was killed by signal 9")
        );
        let Outcome::Dead(cause) = ended(65, "reading line 3\nno such address\n") else { panic!() };
        assert_eq!(cause.reason, DeathReason::Other("no such address".into()));
        let Outcome::Dead(cause) = ended(65, "") else { panic!() };
        assert_eq!((cause.reason, cause.error), (DeathReason::Other("rejected".into()), None));
    }

    #[test]
    fn exit_code_ten_continues_with_what_was_written() {
        let wrote = |text: &str| {
            let pipes = PipeOutput { output: text.into(), ..PipeOutput::default() };
            from_exit(ExitStatus::from_raw(10 << 8), pipes, false)
        };
        let json = r#"{"kind":"ship","payload":{"n":1},"queue":"out","delay_ms":5,"after":["a"]}"#;
        let Outcome::Continue(next) = wrote(json) else { panic!() };
        assert_eq!((next.kind.as_str(), next.queue.name.as_str()), ("ship", "out"));
        assert_eq!((&next.payload[..], next.due), (&br#"{"n":1}"#[..], Due::In(Duration::from_millis(5))));
        assert_eq!(next.after, [JobId::new("a").unwrap()]);
        let Outcome::Continue(next) = wrote(r#"{"kind":"ship"}"#) else { panic!() };
        assert_eq!((next.queue.name.as_str(), &next.payload[..]), ("default", &b"null"[..]));
        for wrong in ["", "ship", "{}", r#"{"kind":"a b"}"#, r#"{"kind":"a","after":[""]}"#] {
            assert!(matches!(wrote(wrong), Outcome::Dead(_)), "{wrong:?}");
        }
    }

    #[test]
    fn a_long_output_matters_only_if_it_is_kept() {
        let pipes = || PipeOutput { overflowed: true, ..PipeOutput::default() };
        assert_eq!(from_exit(ExitStatus::from_raw(0), pipes(), false), Outcome::Done(Bytes::new()));
        assert!(matches!(from_exit(ExitStatus::from_raw(0), pipes(), true), Outcome::Dead(_)));
    }
}
