//! From what a task did to what a store has to write down.

use bytes::Bytes;
use tidemill_core::store::runs::{self, AfterCommit, CloseRun, ContinueAsNew, DELIVERY_ID_RETENTION};
use tidemill_core::workflow::{
    ChildResult, Command, Commit, CommitId, Entry, Json, OpenChildren, ParentClose, RunEnd, RunEvent,
    RunStarted, RunStatus,
};

use crate::machine::{Machine, Origin};
use crate::wire::{Effects, Place, tell};

/// What the store is to write, in one step with the end of the task.
pub(super) fn written(
    machine: &mut Machine,
    commit: Commit,
    cursor: u64,
    place: &Place<'_>,
) -> runs::CommitParams {
    let mut effects = Effects::new(place.run, place.queue, place.now);
    machine.take_overdue().into_iter().for_each(|seq| effects.cancel_activity(seq));
    let (is_last, losers) = (commit.end.is_some(), machine.take_losers());
    let superseded = |command: &&Command| is_last && is_superseded(command, &losers, machine.children());
    let wanted = commit.commands.iter().filter(|command| !superseded(command));
    wanted.for_each(|command| effects.add(command, machine.children()));
    let then = match &commit.end {
        None => AfterCommit::GoesOn,
        Some(end) => {
            effects.orphan(machine.children());
            ends(machine, end, place, &mut effects)
        }
    };
    let (run, id, upto) = (place.run.clone(), CommitId::generate(), commit.upto);
    let entry = Entry::commit(place.now, commit).write();
    runs::CommitParams { run, id, cursor, upto, entry, effects: effects.finish(), then }
}

/// When a run ends its children are treated as was said when they were started. Code that returns drops the handles of
/// its children, and that is no wish of its own to cancel them; one that has lost a `select!` is not wanted any more,
/// whether it was to outlive the run or not.
fn is_superseded(command: &Command, losers: &[u64], children: &OpenChildren) -> bool {
    let Command::CancelChild { seq } = command else { return false };
    let outlives = children.get(*seq).is_some_and(|child| child.parent_close == ParentClose::Abandon);
    !(outlives && losers.contains(seq))
}

fn ends(machine: &Machine, end: &RunEnd, place: &Place<'_>, effects: &mut Effects<'_>) -> AfterCommit {
    let (status, output, error, result) = match end {
        RunEnd::ContinuedAsNew { input, seq, signals, updates } => {
            let (signals, updates) = (signals.clone(), updates.clone());
            let next = RunStarted { seq: *seq, signals, updates, ..again(machine, input.clone()) };
            let first = Entry::event(place.now, RunEvent::Started(Box::new(next))).write();
            return AfterCommit::Restarts(ContinueAsNew { first, seen_for: DELIVERY_ID_RETENTION });
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
    let parent = machine.origin().and_then(|origin| origin.parent.as_ref());
    let told = parent.and_then(|parent| tell(parent, result, place, effects));
    AfterCommit::Ends(CloseRun { status, output, error, told })
}

/// The first event of the run that this one goes on as.
fn again(machine: &Machine, input: Json) -> RunStarted {
    let program = machine.program();
    let Origin { parent, key, luck, limit, keep_ms } = machine.origin().cloned().unwrap_or_default();
    let (workflow, version) = (program.name().clone(), program.version().clone());
    let continued = machine.continued() + 1;
    RunStarted { parent, key, luck, limit, keep_ms, continued, ..RunStarted::new(workflow, version, input) }
}
