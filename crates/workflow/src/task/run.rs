//! One task of a run: from its last commit to the next.

use std::sync::Arc;

use tidemill_core::dead_letter::{DeathCause, DeathReason};
use tidemill_core::store::runs::RunPosition;
use tidemill_core::workflow::{Commit, PositionedEvent, RunId};
use tidemill_core::{Envelope, Outcome};
use tidemill_worker::JobContext;

use super::TaskHandler;
use super::commit::RunContext;
use super::commit::commit_params;
use super::message::TaskMessage;
use super::postpone::PostponeReason;
use super::rebuild::locate;
use crate::program::Program;
use crate::replay::{Advance, Replayer};

impl TaskHandler {
    /// Runs a task. Postpones it if that is not possible.
    pub(super) async fn run_task(self: &Arc<Self>, envelope: &Envelope, cx: &JobContext) -> Outcome {
        let task = match TaskMessage::read(envelope) {
            Ok(task) => task,
            Err(error) => return dead(error.to_string()),
        };
        let done = match envelope.id().run().filter(|_| envelope.id().is_task()) {
            Some(run) => self.dispatch(task, &run, cx).await,
            None => start_run(envelope, &task, cx).await,
        };
        done.unwrap_or_else(|reason| reason.postpone(envelope))
    }

    async fn dispatch(
        self: &Arc<Self>,
        task: TaskMessage,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<Outcome, PostponeReason> {
        let Some(program) = self.programs.find(&task.workflow, &task.version) else {
            let TaskMessage { workflow, version, .. } = task;
            return Err(PostponeReason::NoProgram { workflow, version });
        };
        match self.run_to_commit(program, task, run, cx).await {
            Err(PostponeReason::Blocked(blocked)) => {
                Err(PostponeReason::Blocked(locate(blocked, program, run, &**cx.client().store()).await))
            }
            result => result,
        }
    }

    async fn run_to_commit(
        self: &Arc<Self>,
        program: &Program,
        task: TaskMessage,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<Outcome, PostponeReason> {
        let store = cx.client().store().clone();
        let (replayer, events) = match self.ready_replayer(program, run, &task).await {
            Some(replayer) => (Some(replayer), task.events),
            // The journal has these events too. Later events are left to the next task, or this one
            // might never end.
            None => {
                let upto = task.events.last().map_or(u64::MAX, |last| last.position);
                (self.rebuild(program, run, upto, &*store).await?, Vec::new())
            }
        };
        // A removed or ended run has no tasks.
        let Some(mut replayer) = replayer.filter(|replayer| replayer.end().is_none()) else {
            return Ok(Outcome::NotifyRun(None));
        };
        let cursor = replayer.consumed();
        let commit = self.advance(&mut replayer, events, run, cx).await?;
        let context = RunContext { run, queue: cx.queue(), store: &*store, now: store.clock().now() };
        let params = commit_params(&mut replayer, commit, cursor, &context);
        if replayer.end().is_none() {
            let pending = self.cache.put_pending(run, replayer, params.id);
            cx.on_settled(move |verdict| pending.settle(verdict));
        }
        Ok(Outcome::Commit(Box::new(params)))
    }

    /// A replayer at the end of the journal: from the cache, or a new one if the run is just
    /// starting.
    async fn ready_replayer(
        &self,
        program: &Program,
        run: &RunId,
        task: &TaskMessage,
    ) -> Option<Box<Replayer>> {
        let (cursor, first) = (task.cursor?, task.events.first()?);
        let at = RunPosition { cursor, last_commit: task.last_commit };
        if let Some(replayer) = self.cache.take(run, at).await {
            return Some(replayer);
        }
        let begins = first.position == cursor + 1 && first.event.as_str() == "started";
        begins.then(|| Box::new(self.new_replayer(program, run, cursor)))
    }

    /// Applies the new events and runs local activities as the code waits for them.
    async fn advance(
        &self,
        replayer: &mut Replayer,
        events: Vec<PositionedEvent>,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<Commit, PostponeReason> {
        match replayer.advance(events)? {
            Advance::Commit(commit) => Ok(commit),
            Advance::Local(tasks) => self.run_locals(replayer, tasks, run, cx).await,
        }
    }
}

/// Starts the run that a message of another program requests. The message is done then, because the
/// run has its own task.
async fn start_run(
    envelope: &Envelope,
    task: &TaskMessage,
    cx: &JobContext,
) -> Result<Outcome, PostponeReason> {
    match super::start::start_from_message(envelope, task, cx).await {
        Ok(()) => Ok(Outcome::NotifyRun(None)),
        Err(error) if error.is_invalid() => Ok(dead(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Discards a message that no version of this program writes.
fn dead(error: String) -> Outcome {
    Outcome::Dead(DeathCause { reason: DeathReason::InvalidPayload, error: Some(error) })
}
