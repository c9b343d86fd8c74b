//! Remote commands: what a run does to other runs, which may be in other shards. Each is a job on
//! the queue of the run's tasks, created by the commit that issued it. Repeats have no effect,
//! because started runs and deliveries have ids.

use serde::{Deserialize, Serialize};
use tidemill_core::dead_letter::{DeathCause, DeathReason};
use tidemill_core::envelope::{ActivityTerms, DEFAULT_MAX_ATTEMPTS, JobOptions, Meta};
use tidemill_core::store::runs::{Delivered, Effect, ParentRef, StartRunResult};
use tidemill_core::store::{Due, NewJob};
use tidemill_core::workflow::{
    ChildResult, Json, NotifyParent, Parent, Requester, RunEvent, RunId, RunStarted, SignalDelivery,
    StartChild, StoredSignal, Topic,
};
use tidemill_core::{Envelope, Error, JobId, Kind, Outcome, Queue, Store, Timestamp};
use tidemill_worker::JobContext;

use super::message::deliver;
use super::postpone::PostponeReason;
use super::start::{StartRequest, queue_route};
use crate::client::terminate;

/// The kind of remote commands.
pub(crate) const REMOTE_COMMAND_KIND: &str = "tidemill/errand";

/// A remote command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RemoteCommand {
    /// Starts a child and notifies the parent that it exists, if requested.
    Start(Box<StartChild>),
    /// Asks a child to cancel.
    Cancel {
        run: RunId,
        /// The child's parent. The command that starts the child may still be running.
        parent: Parent,
        reason: String,
    },
    /// Terminates a child.
    Terminate { run: RunId, parent: Parent, reason: String },
    /// Sends a signal and notifies the sender of its delivery.
    Signal { run: RunId, name: Topic, payload: Json },
    /// Notifies a parent of its child's end.
    Tell { run: RunId, event: RunEvent },
}

/// The id of the job that starts this child.
pub(crate) fn start_job_id(parent: &Parent) -> JobId {
    parent.run.part(format_args!("c{}", parent.seq))
}

impl RemoteCommand {
    /// The job that executes the command for `run`. `seq` is the number of the command that waits
    /// for the result.
    pub(crate) fn to_effect(&self, run: &RunId, seq: u64, queue: &Queue, now: Timestamp) -> Effect {
        let requester = Requester { run: run.clone(), seq };
        let waits = matches!(self, Self::Start(_) | Self::Signal { .. });
        let kind = Kind::new(REMOTE_COMMAND_KIND).unwrap_or_else(|_| unreachable!("it is a valid kind"));
        let meta =
            Meta { correlation_id: Some(run.as_str()), user_id: None, enqueue_ts: now, source: "workflow" };
        let draft = JobOptions {
            kind: &kind,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            timeout: None,
            keep_result: None,
            backoff: None,
            tracked: true,
            activity: waits.then_some(ActivityTerms { requester: &requester, heartbeat: None }),
            meta,
        };
        let id = self.job_id(run, seq);
        // It consists of text, numbers and JSON, so this always serializes.
        let envelope = draft.template().fill(&id, self).map(|(bytes, _)| bytes).unwrap_or_default();
        let links = Default::default();
        let job = NewJob { id, envelope, due: Due::Now, tracked: true, generated_id: false, links };
        Effect::Job { queue: queue.clone(), job }
    }

    fn job_id(&self, run: &RunId, seq: u64) -> JobId {
        match self {
            Self::Start(_) => run.part(format_args!("c{seq}")),
            Self::Cancel { .. } => run.part(format_args!("x{seq}")),
            Self::Terminate { .. } => run.part(format_args!("k{seq}")),
            Self::Signal { .. } => run.part(format_args!("s{seq}")),
            Self::Tell { .. } => run.part("told"),
        }
    }
}

/// Runs a remote command.
pub(super) async fn run(envelope: &Envelope, cx: &JobContext) -> Outcome {
    let command = match serde_json::from_slice(envelope.payload()) {
        Ok(command) => command,
        Err(error) => return unreadable(&error),
    };
    let done = execute(command, envelope, cx).await;
    done.unwrap_or_else(|reason| reason.postpone(envelope))
}

async fn execute(
    command: RemoteCommand,
    envelope: &Envelope,
    cx: &JobContext,
) -> Result<Outcome, PostponeReason> {
    let store = &**cx.client().store();
    // Repeats have no effect: the job's id identifies the delivery.
    let id = envelope.id().as_str().to_owned();
    let event = match (command, envelope.requester()) {
        (RemoteCommand::Start(child), Some(requester)) => start_child(*child, requester, cx).await?,
        (RemoteCommand::Signal { run, name, payload }, Some(requester)) => {
            let signal = RunEvent::Signal(StoredSignal { name, payload, id: id.clone() });
            let result = signal_delivery(&run, deliver(store, &run, signal, Some(id)).await?);
            Some(RunEvent::SignalSent { seq: requester.seq, result })
        }
        (RemoteCommand::Cancel { run, parent, reason }, _) => {
            let (starting, event) =
                (is_starting(store, &parent).await?, RunEvent::CancelRequested { reason: Some(reason) });
            let delivered = deliver(store, &run, event, Some(id)).await?;
            check_started(starting, delivered != Delivered::NotFound)?;
            None
        }
        (RemoteCommand::Terminate { run, parent, reason }, _) => {
            let starting = is_starting(store, &parent).await?;
            check_started(starting, terminate(store, &run, &reason).await?.is_found())?;
            None
        }
        (RemoteCommand::Tell { run, event }, _) => {
            deliver(store, &run, event, Some(id)).await?;
            None
        }
        (RemoteCommand::Start(_) | RemoteCommand::Signal { .. }, None) => None,
    };
    Ok(Outcome::NotifyRun(event.map(Box::new)))
}

/// Whether the child may still be started. Checked before looking for the child: once the job that
/// starts it is gone, the child exists or never will.
async fn is_starting(store: &dyn Store, parent: &Parent) -> Result<bool, Error> {
    Ok(store.get_job(&start_job_id(parent)).await?.is_some_and(|info| !info.state.is_final()))
}

/// Postpones the command if the child does not exist but may still be started.
fn check_started(starting: bool, found: bool) -> Result<(), PostponeReason> {
    match starting && !found {
        true => Err(PostponeReason::NotYet("the child is being started".to_owned())),
        false => Ok(()),
    }
}

async fn start_child(
    child: StartChild,
    requester: &Requester,
    cx: &JobContext,
) -> Result<Option<RunEvent>, PostponeReason> {
    let StartChild { seq, workflow, version, input, run, notify_parent: notify, keep_ms, .. } = child;
    let store = &**cx.client().store();
    let parent = Some(Parent { run: requester.run.clone(), seq, notify_parent: notify });
    let started = RunStarted { parent, keep_ms, ..RunStarted::new(workflow, version, input) };
    let request = StartRequest { route: queue_route(cx.queue()), ..StartRequest::new(run.clone(), started) };
    let result = match store.start_run(&request.into_params(store.clock().now())).await {
        Err(error) if error.is_invalid() => return Ok(Some(child_failed(seq, error.to_string()))),
        result => result?,
    };
    if result != StartRunResult::Created && !was_started_by(store, &run, requester).await? {
        return Ok(Some(child_failed(seq, format!("run `{run}` exists already"))));
    }
    Ok((notify != NotifyParent::End).then_some(RunEvent::ChildStarted { seq, run }))
}

/// Whether this command started the run in an earlier attempt whose answer was lost.
async fn was_started_by(store: &dyn Store, run: &RunId, requester: &Requester) -> Result<bool, Error> {
    let parent = ParentRef { run: requester.run.clone(), seq: requester.seq };
    Ok(store.get_run(run).await?.is_some_and(|info| info.parent == Some(parent)))
}

fn child_failed(seq: u64, message: String) -> RunEvent {
    RunEvent::ChildDone { seq, result: ChildResult::Failed { message } }
}

fn signal_delivery(run: &RunId, delivered: Delivered) -> SignalDelivery {
    match delivered {
        Delivered::Yes | Delivered::Duplicate => SignalDelivery::Ok,
        Delivered::Closed(status) => {
            SignalDelivery::Failed { message: format!("run `{run}` has ended: {status}") }
        }
        Delivered::NotFound => SignalDelivery::Failed { message: format!("there is no run `{run}`") },
    }
}

fn unreadable(error: &serde_json::Error) -> Outcome {
    Outcome::Dead(DeathCause { reason: DeathReason::InvalidPayload, error: Some(error.to_string()) })
}

#[cfg(test)]
mod tests {
    use tidemill_core::Envelope;
    use tidemill_core::workflow::WorkflowName;

    use super::*;

    #[test]
    fn a_remote_command_reads_back_and_names_its_requester() {
        let (run, now): (RunId, _) = ("order-7".parse().unwrap(), Timestamp(0));
        let queue = WorkflowName::new("order").unwrap().queue(None);
        let (name, payload) = ("go".parse().unwrap(), Json::from_value(&1).unwrap());
        let command = RemoteCommand::Signal { run: "other".parse().unwrap(), name, payload };
        let Effect::Job { job, .. } = command.to_effect(&run, 4, &queue, now) else { panic!() };
        let envelope = Envelope::read(job.envelope).unwrap();
        assert_eq!(envelope.requester(), Some(&Requester { run: run.clone(), seq: 4 }));
        assert_eq!(serde_json::from_slice::<RemoteCommand>(envelope.payload()).unwrap(), command);
        assert_ne!(job.id, run.part(4));
    }
}
