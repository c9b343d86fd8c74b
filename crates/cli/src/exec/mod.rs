//! Programs as handlers: the envelope on stdin, the output on stdout, and an exit code that decides
//! the outcome.

mod exit_outcome;
mod pipes;
mod process_group;

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tidemill::settle::Outcome;
use tidemill::{Envelope, JobContext, WorkerBuilder};
use tokio::process::Command;

use pipes::PipeOutput;
use process_group::ProcessGroup;
pub(crate) use process_group::ProcessGroups;

/// Time to read the pipes after the program has ended: a child process that it left may hold them
/// open for ever.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A kind of job and its command: `KIND=COMMAND`, or `*=COMMAND` for every other kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecHandler {
    kind: String,
    command: Arc<str>,
}

impl ExecHandler {
    /// A kind that it runs, for examples.
    pub(crate) fn kind(&self) -> &str {
        if self.kind == "*" { "greet" } else { &self.kind }
    }
}

/// Parses `KIND=COMMAND`.
pub(crate) fn parse_handler(text: &str) -> Result<ExecHandler, String> {
    let (kind, command) = text.split_once('=').ok_or("write it as KIND=COMMAND")?;
    if kind != "*" {
        tidemill::Kind::new(kind).map_err(|error| error.to_string())?;
    }
    if command.trim().is_empty() {
        return Err(format!("there is no command after `{kind}=`"));
    }
    Ok(ExecHandler { kind: kind.to_owned(), command: command.into() })
}

/// Adds these handlers to a worker. Their process groups are registered in `groups`.
pub(crate) fn add_handlers(
    worker: WorkerBuilder,
    handlers: Vec<ExecHandler>,
    groups: &Arc<ProcessGroups>,
) -> WorkerBuilder {
    handlers.into_iter().fold(worker, |worker, ExecHandler { kind, command }| {
        let groups = groups.clone();
        let run = move |envelope, cx| run(command.clone(), groups.clone(), envelope, cx);
        if kind == "*" { worker.handle_any(run) } else { worker.handle_untyped(&kind, run) }
    })
}

async fn run(command: Arc<str>, groups: Arc<ProcessGroups>, envelope: Envelope, cx: JobContext) -> Outcome {
    match attempt(&command, &groups, &envelope, &cx).await {
        Ok((status, pipes)) => exit_outcome::from_exit(status, pipes, envelope.keep_result().is_some()),
        Err(error) => Outcome::Retry { error: format!("the program could not be run: {error}"), after: None },
    }
}

/// Runs the command once. Dropping this future terminates the program and its child processes.
async fn attempt(
    command: &str,
    groups: &Arc<ProcessGroups>,
    envelope: &Envelope,
    cx: &JobContext,
) -> std::io::Result<(ExitStatus, PipeOutput)> {
    let mut child = shell(command, cx).spawn()?;
    let (mut pipes, mut ends) = PipeOutput::new(&mut child, envelope);
    let mut group = ProcessGroup::new(child, groups);
    let status = {
        let mut transfer = std::pin::pin!(pipes.transfer(&mut ends));
        let (status, is_transferring) = tokio::select! {
            biased;
            () = &mut transfer => (group.ended().await?, false),
            status = group.ended() => (status?, true),
        };
        // Terminates remaining child processes, which would hold the pipes open.
        drop(group);
        if is_transferring {
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, transfer).await;
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
        // Its own group, so that it can be terminated with its children. A Ctrl-C in the terminal
        // reaches only the worker, which shuts it down in order.
        .process_group(0);
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_a_kind_and_a_command() {
        let handler = parse_handler("send_email=./mail.py --from=me").unwrap();
        assert_eq!((handler.kind.as_str(), &*handler.command), ("send_email", "./mail.py --from=me"));
        assert!(super::parse_handler("*=cat").is_ok());
        for wrong in ["cat", "=cat", "a b=cat", "greet=", "greet= "] {
            assert!(super::parse_handler(wrong).is_err(), "{wrong:?}");
        }
    }
}
