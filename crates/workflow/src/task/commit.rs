//! The commit of a task: what the store writes when the task is settled.

use bytes::Bytes;
use tidemill_core::store::runs::{
    self, AfterCommit, CloseRun, ContinueAsNew, DELIVERY_ID_RETENTION, Delivery, EntryKind, StoredEntry,
};
use tidemill_core::workflow::{
    ChildResult, Command, Commit, CommitId, Entry, Json, NotifyParent, OpenChildren, Parent, ParentClose,
    RunEnd, RunEvent, RunId, RunStarted, RunStatus,
};
use tidemill_core::{Queue, Store, Timestamp};

use super::effects::Effects;
use super::remote_command::RemoteCommand;
use crate::replay::{Replayer, RunOrigin};

/// The run that a commit changes, and its surroundings.
pub(crate) struct RunContext<'a> {
    pub(crate) run: &'a RunId,
    pub(crate) queue: &'a Queue,
    pub(crate) store: &'a dyn Store,
    pub(crate) now: Timestamp,
}

/// What the store writes in one step with the end of the task.
pub(super) fn commit_params(
    replayer: &mut Replayer,
    commit: Commit,
    cursor: u64,
    context: &RunContext<'_>,
) -> runs::CommitParams {
    let mut effects = Effects::new(context.run, context.queue, context.now);
    replayer.take_timed_out().into_iter().for_each(|seq| effects.cancel_activity(seq));
    let (is_last, unselected) = (commit.end.is_some(), replayer.take_unselected_children());
    let superseded = |command: &&Command| is_last && is_superseded(command, &unselected, replayer.children());
    let commands = commit.commands.iter().filter(|command| !superseded(command));
    commands.for_each(|command| effects.add(command, replayer.children()));
    let then = match &commit.end {
        None => AfterCommit::Running,
        Some(end) => {
            effects.close_children(replayer.children());
            after_end(replayer, end, context, &mut effects)
        }
    };
    let (run, id, upto) = (context.run.clone(), CommitId::generate(), commit.upto);
    let entry = Entry::commit(context.now, commit).write();
    runs::CommitParams { run, id, cursor, upto, entry, effects: effects.into_vec(), then }
}

/// Whether the end of the run overrides a command. `parent_close` decides about children at the
/// end, because returning code merely drops their handles. A child that a `select!` dropped as
/// unselected is cancelled even if its policy is to abandon it.
fn is_superseded(command: &Command, unselected: &[u64], children: &OpenChildren) -> bool {
    let Command::CancelChild { seq } = command else { return false };
    let is_abandoned = children.get(*seq).is_some_and(|child| child.parent_close == ParentClose::Abandon);
    !(is_abandoned && unselected.contains(seq))
}

fn after_end(
    replayer: &Replayer,
    end: &RunEnd,
    context: &RunContext<'_>,
    effects: &mut Effects<'_>,
) -> AfterCommit {
    let (status, output, error, result) = match end {
        RunEnd::ContinuedAsNew { input, seq, signals, updates } => {
            let (signals, updates) = (signals.clone(), updates.clone());
            let next = RunStarted { seq: *seq, signals, updates, ..next_started(replayer, input.clone()) };
            let first = Entry::event(context.now, RunEvent::Started(Box::new(next))).write();
            return AfterCommit::ContinueAsNew(ContinueAsNew { first, id_retention: DELIVERY_ID_RETENTION });
        }
        RunEnd::Completed(output) => {
            let bytes = Bytes::copy_from_slice(output.as_str().as_bytes());
            (RunStatus::Completed, bytes, None, ChildResult::Ok(output.clone()))
        }
        RunEnd::Failed { message } => {
            let result = ChildResult::Failed { message: message.clone() };
            (RunStatus::Failed, Bytes::new(), Some(message.clone()), result)
        }
        RunEnd::Cancelled => (RunStatus::Cancelled, Bytes::new(), None, ChildResult::Cancelled),
    };
    let parent = replayer.origin().and_then(|origin| origin.parent.as_ref());
    let told = parent.and_then(|parent| notify_parent(parent, result, context, effects));
    AfterCommit::Close(CloseRun { status, output, error, notify_parent: told })
}

/// The first event of the continued run.
fn next_started(replayer: &Replayer, input: Json) -> RunStarted {
    let program = replayer.program();
    let RunOrigin { parent, key, seed, journal_limit: limit, keep_ms } =
        replayer.origin().cloned().unwrap_or_default();
    let (workflow, version) = (program.name().clone(), program.version().clone());
    let continued = replayer.continued() + 1;
    RunStarted { parent, key, seed, limit, keep_ms, continued, ..RunStarted::new(workflow, version, input) }
}

/// Notifies the parent of a run's end: in the same commit if it is in the same shard, else by a
/// remote command.
pub(crate) fn notify_parent(
    parent: &Parent,
    result: ChildResult,
    context: &RunContext<'_>,
    effects: &mut Effects<'_>,
) -> Option<Delivery> {
    if parent.notify_parent == NotifyParent::Start {
        return None;
    }
    let (run, seq) = (parent.run.clone(), parent.seq);
    let event = RunEvent::ChildDone { seq, result };
    if !context.store.same_shard(context.run, &run) {
        effects.remote_command(0, &RemoteCommand::Tell { run, event });
        return None;
    }
    let stored =
        StoredEntry { kind: EntryKind::CommandResult, bytes: Entry::event(context.now, event).write() };
    Some(Delivery { run, entry: stored, id: None, seq: Some(seq) })
}
