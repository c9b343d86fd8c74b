//! `terminate`: ends a run without running its code.

use bytes::Bytes;
use tidemill_core::retry::{Answered, repeat_until_answered};
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::{CloseRun, ParentRef, RunInfo, TerminateParams};
use tidemill_core::workflow::{
    ChildResult, Command, Entry, EntryContent, NotifyParent, OpenChildren, OpenCommands, Parent, RunEvent,
    RunId, RunStatus,
};
use tidemill_core::{Error, Store};

use crate::task::{Effects, JournalPages, RunContext, notify_parent};

/// How many attempts to make against a run that keeps committing. Each attempt reads only new
/// entries, so the run must pause for one round trip only, however long its journal is.
const MAX_ATTEMPTS: usize = 1_000;

/// The result of terminating a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminateResult {
    /// This call ended it.
    Terminated,
    /// It had ended before.
    AlreadyClosed(RunStatus),
    /// It does not exist.
    NotFound,
}

impl TerminateResult {
    pub(crate) fn is_found(self) -> bool {
        self != Self::NotFound
    }
}

/// Ends a run, cancels its open commands and notifies its parent. If the answer of an earlier
/// attempt was lost, a run terminated for the same reason was terminated by it.
pub(crate) async fn terminate(
    store: &dyn Store,
    run: &RunId,
    reason: &str,
) -> Result<TerminateResult, Error> {
    let Answered { value, after_unknown } =
        repeat_until_answered(store.clock(), || try_terminate(store, run, reason)).await?;
    if after_unknown && value == TerminateResult::AlreadyClosed(RunStatus::Terminated) {
        let info = repeat_until_answered(store.clock(), || store.get_run(run)).await?.value;
        if info.is_some_and(|info| info.error.as_deref() == Some(reason)) {
            return Ok(TerminateResult::Terminated);
        }
    }
    Ok(value)
}

async fn try_terminate(store: &dyn Store, run: &RunId, reason: &str) -> Result<TerminateResult, Error> {
    let mut terminator = Terminator::new(store, run);
    for _ in 0..MAX_ATTEMPTS {
        let Some(info) = store.get_run(run).await? else { return Ok(TerminateResult::NotFound) };
        if info.status.is_closed() {
            return Ok(TerminateResult::AlreadyClosed(info.status));
        }
        terminator.read_new_entries().await?;
        if terminator.terminate(store, &info, reason).await? == Verdict::Accepted {
            return Ok(TerminateResult::Terminated);
        }
    }
    let message = format!("run `{run}` gets on too fast to be terminated");
    Err(Error::Unavailable { message, source: None })
}

/// A run's journal, read page by page because it may be long.
struct Terminator<'a> {
    pages: JournalPages<'a>,
    summary: JournalSummary,
}

impl<'a> Terminator<'a> {
    fn new(store: &'a dyn Store, run: &'a RunId) -> Self {
        Self { pages: JournalPages::new(store, run), summary: JournalSummary::default() }
    }

    /// Reads the entries that were written since the last call.
    async fn read_new_entries(&mut self) -> Result<(), Error> {
        self.pages.resume();
        loop {
            let page = self.pages.next().await?;
            if page.is_empty() {
                return Ok(());
            }
            for (position, stored) in page {
                // An unreadable entry must not prevent the termination.
                if let Ok(entry) = Entry::read(&stored.bytes) {
                    self.summary.read(position, &entry);
                }
            }
        }
    }

    /// Ends the run if it has not committed since it was read.
    async fn terminate(&self, store: &dyn Store, info: &RunInfo, reason: &str) -> Result<Verdict, Error> {
        let (run, summary) = (&info.run, &self.summary);
        let context = RunContext { run, queue: &info.queue, store, now: store.clock().now() };
        let mut effects = Effects::new(run, &info.queue, context.now);
        for open in summary.open.iter() {
            if let Command::ScheduleActivity(activity) = &open.command {
                effects.cancel_activity(activity.seq);
            }
        }
        effects.close_children(&summary.children);
        let parent = parent_to_notify(info, summary.notify);
        let delivery =
            parent.and_then(|parent| notify_parent(&parent, ChildResult::Terminated, &context, &mut effects));
        let error = Some(reason.to_owned());
        let close =
            CloseRun { status: RunStatus::Terminated, output: Bytes::new(), error, notify_parent: delivery };
        let effects = effects.into_vec();
        // The journal was read after the row and may be newer. It may be behind if entries are
        // unreadable.
        let cursor = info.cursor.max(summary.cursor);
        store.terminate(TerminateParams { run, cursor, effects: &effects, close: &close }).await
    }
}

/// What the journal says about open commands and the parent.
#[derive(Default)]
struct JournalSummary {
    open: OpenCommands,
    children: OpenChildren,
    /// When the run's parent is notified.
    notify: Option<NotifyParent>,
    /// The position up to which events were consumed.
    cursor: u64,
}

impl JournalSummary {
    fn read(&mut self, position: u64, entry: &Entry) {
        match &entry.content {
            // The run has continued as new: its earlier commands do not matter.
            EntryContent::Event(RunEvent::Started(started)) => {
                let notify = started.parent.as_ref().map(|parent| parent.notify_parent);
                *self = Self { notify, cursor: position.saturating_sub(1), ..Self::default() };
            }
            EntryContent::Event(_) => {}
            EntryContent::Commit(commit) => self.cursor = commit.upto,
        }
        self.open.apply(entry);
        self.children.apply(entry);
    }
}

/// The parent to notify. The run's row names it even if the journal is damaged. Only the first
/// entry says when to notify; if it is unreadable, the default applies.
fn parent_to_notify(info: &RunInfo, notify: Option<NotifyParent>) -> Option<Parent> {
    let ParentRef { run, seq } = info.parent.clone()?;
    Some(Parent { run, seq, notify_parent: notify.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use tidemill_core::Timestamp;
    use tidemill_core::workflow::RunStarted;

    use super::*;

    fn child() -> RunInfo {
        RunInfo {
            run: "child".parse().unwrap(),
            workflow: "order".parse().unwrap(),
            version: "1".parse().unwrap(),
            status: RunStatus::Running,
            queue: tidemill_core::workflow::WorkflowName::new("order").unwrap().queue(None),
            started_at: Timestamp(0),
            closed_at: None,
            cursor: 0,
            length: 0,
            last_commit: None,
            key: None,
            parent: Some(ParentRef { run: "parent".parse().unwrap(), seq: 4 }),
            attributes: Default::default(),
            next_timer: None,
            output: Bytes::new(),
            error: None,
        }
    }

    #[test]
    fn a_parent_is_found_whatever_became_of_the_journal_and_hears_what_it_wants_to() {
        let info = child();
        let of = |notify| Some(Parent { run: "parent".parse().unwrap(), seq: 4, notify_parent: notify });
        assert_eq!(parent_to_notify(&info, None), of(NotifyParent::End));
        let input = tidemill_core::workflow::Json::null();
        let started = RunStarted::new("order".parse().unwrap(), "1".parse().unwrap(), input);
        let started = RunStarted { parent: of(NotifyParent::Start), ..started };
        let mut summary = JournalSummary::default();
        summary.read(1, &Entry::event(Timestamp(0), RunEvent::Started(Box::new(started))));
        assert_eq!(parent_to_notify(&info, summary.notify), of(NotifyParent::Start));
        assert_eq!(parent_to_notify(&RunInfo { parent: None, ..info }, summary.notify), None);
    }
}
