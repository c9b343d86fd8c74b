//! Any program is a handler: it gets the envelope on stdin, its stdout is the job's output, and its exit code
//! says what becomes of the job.

mod group;
mod pipes;
mod verdict;

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tidemill::settle::Outcome;
use tidemill::{Envelope, JobContext, WorkerBuilder};
use tokio::process::Command;

use group::Group;
pub(crate) use group::Groups;
use pipes::Pipes;

/// What is left in the pipes of a program that has ended is read for at most this long: a process it left
/// behind may hold them open for ever.
const TO_READ: Duration = Duration::from_secs(1);

/// A kind of job and the command that runs it: `KIND=COMMAND`, or `*=COMMAND` for every other kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    kind: String,
    command: Arc<str>,
}

impl Program {
    /// A kind it runs.
    pub(crate) fn kind(&self) -> &str {
        if self.kind == "*" { "greet" } else { &self.kind }
    }
}

/// Reads `KIND=COMMAND`.
pub(crate) fn program(text: &str) -> Result<Program, String> {
    let (kind, command) = text.split_once('=').ok_or("write it as KIND=COMMAND")?;
    if kind != "*" {
        tidemill::Kind::new(kind).map_err(|error| error.to_string())?;
    }
    if command.trim().is_empty() {
        return Err(format!("there is no command after `{kind}=`"));
    }
    Ok(Program { kind: kind.to_owned(), command: command.into() })
}

/// Adds the handlers of `programs` to a worker. Their processes are counted in `groups`.
pub(crate) fn handlers(worker: WorkerBuilder, programs: Vec<Program>, groups: &Arc<Groups>) -> WorkerBuilder {
    programs.into_iter().fold(worker, |worker, Program { kind, command }| {
        let groups = groups.clone();
        let run = move |envelope, cx| run(command.clone(), groups.clone(), envelope, cx);
        if kind == "*" { worker.handle_any(run) } else { worker.handle_untyped(&kind, run) }
    })
}

async fn run(command: Arc<str>, groups: Arc<Groups>, envelope: Envelope, cx: JobContext) -> Outcome {
    match attempt(&command, &groups, &envelope, &cx).await {
        Ok((status, pipes)) => verdict::of(status, pipes, envelope.keep_result().is_some()),
        Err(error) => Outcome::Retry { error: format!("the program could not be run: {error}"), after: None },
    }
}

/// Runs the command once. Dropping this future ends the program and everything it started.
async fn attempt(
    command: &str,
    groups: &Arc<Groups>,
    envelope: &Envelope,
    cx: &JobContext,
) -> std::io::Result<(ExitStatus, Pipes)> {
    let mut child = shell(command, cx).spawn()?;
    let (mut pipes, mut ends) = Pipes::of(&mut child, envelope);
    let mut group = Group::of(child, groups);
    let status = {
        let mut flow = std::pin::pin!(pipes.flow(&mut ends));
        let (status, flowing) = tokio::select! {
            biased;
            () = &mut flow => (group.ended().await?, false),
            status = group.ended() => (status?, true),
        };
        // The program is gone; what it left behind goes too, or it would hold the pipes open.
        drop(group);
        if flowing {
            let _ = tokio::time::timeout(TO_READ, flow).await;
        }
        status
    };
    Ok((status, pipes))
}

fn shell(command: &str, cx: &JobContext) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .env("TIDEMILL_JOB_ID", cx.id().as_str())
        .env("TIDEMILL_CHAIN", cx.chain().as_str())
        .env("TIDEMILL_KIND", cx.kind().as_str())
        .env("TIDEMILL_QUEUE", cx.queue().name.as_str())
        .env("TIDEMILL_ATTEMPT", cx.attempt().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that it can be ended with all it started, and so that a Ctrl-C in the
        // terminal reaches the worker only, which ends it in order.
        .process_group(0);
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_a_kind_and_a_command() {
        let program = program("send_email=./mail.py --from=me").unwrap();
        assert_eq!((program.kind.as_str(), &*program.command), ("send_email", "./mail.py --from=me"));
        assert!(super::program("*=cat").is_ok());
        for wrong in ["cat", "=cat", "a b=cat", "greet=", "greet= "] {
            assert!(super::program(wrong).is_err(), "{wrong:?}");
        }
    }
}
