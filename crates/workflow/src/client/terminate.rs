//! Ending a run without asking its code.

use bytes::Bytes;
use tidemill_core::retry::{Answered, ask};
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::{CloseRun, ParentRef as Kin, RunInfo, TerminateParams};
use tidemill_core::workflow::{
    ChildResult, Command, Entry, EntryContent, NotifyParent, OpenChildren, OpenCommands, Parent, RunEvent,
    RunId, RunStatus,
};
use tidemill_core::{Error, Store};

use crate::wire::{Effects, Pages, Place, tell};

/// How often a run may get on while it is being looked at. Each look reads only what is new, so that the time in which it
/// must not get on is that of one trip, however long its journal is.
const LOOKS: usize = 1_000;

/// What terminating a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terminated {
    /// It has ended.
    Now,
    /// It had ended before, like this.
    Before(RunStatus),
    /// There is no such run.
    NotFound,
}

impl Terminated {
    pub(crate) fn is_found(self) -> bool {
        self != Self::NotFound
    }
}

/// Ends a run. What it has asked for and got no answer to is called off; its parent is told. If an earlier try got no
/// answer, a run that was terminated for this reason was terminated by it.
pub(crate) async fn terminate(store: &dyn Store, run: &RunId, reason: &str) -> Result<Terminated, Error> {
    let Answered { value, after_unknown } = ask(store.clock(), || try_terminate(store, run, reason)).await?;
    if after_unknown && value == Terminated::Before(RunStatus::Terminated) {
        let info = ask(store.clock(), || store.get_run(run)).await?.value;
        if info.is_some_and(|info| info.error.as_deref() == Some(reason)) {
            return Ok(Terminated::Now);
        }
    }
    Ok(value)
}

async fn try_terminate(store: &dyn Store, run: &RunId, reason: &str) -> Result<Terminated, Error> {
    let mut asked = Asked::new(store, run);
    for _ in 0..LOOKS {
        let Some(info) = store.get_run(run).await? else { return Ok(Terminated::NotFound) };
        if info.status.is_closed() {
            return Ok(Terminated::Before(info.status));
        }
        asked.read_on().await?;
        if asked.call_off(store, &info, reason).await? == Verdict::Accepted {
            return Ok(Terminated::Now);
        }
    }
    let message = format!("run `{run}` gets on too fast to be terminated");
    Err(Error::Unavailable { message, source: None })
}

/// What a run has asked for, as far as its end concerns it. Gathered page by page: its journal may be long.
struct Asked<'a> {
    pages: Pages<'a>,
    known: Known,
}

impl<'a> Asked<'a> {
    fn new(store: &'a dyn Store, run: &'a RunId) -> Self {
        Self { pages: Pages::new(store, run), known: Known::default() }
    }

    /// Reads what has been written since the last time.
    async fn read_on(&mut self) -> Result<(), Error> {
        self.pages.resume();
        loop {
            let page = self.pages.next().await?;
            if page.is_empty() {
                return Ok(());
            }
            for (position, written) in page {
                // An entry that cannot be read must not keep anybody from ending the run.
                if let Ok(entry) = Entry::read(&written.entry) {
                    self.known.read(position, &entry);
                }
            }
        }
    }

    /// Ends the run, if it has not got on since it was read.
    async fn call_off(&self, store: &dyn Store, info: &RunInfo, reason: &str) -> Result<Verdict, Error> {
        let (run, known) = (&info.run, &self.known);
        let place = Place { run, queue: &info.queue, store, now: store.clock().now() };
        let mut effects = Effects::new(run, &info.queue, place.now);
        for open in known.open.iter() {
            if let Command::ScheduleActivity(activity) = &open.command {
                effects.cancel_activity(activity.seq);
            }
        }
        effects.orphan(&known.children);
        let parent = parent(info, known.told);
        let told = parent.and_then(|parent| tell(&parent, ChildResult::Terminated, &place, &mut effects));
        let error = Some(reason.to_owned());
        let close = CloseRun { status: RunStatus::Terminated, output: Bytes::new(), error, told };
        let effects = effects.finish();
        // The journal was read after the row, and may tell of more. It tells of less where it cannot be read.
        let cursor = info.cursor.max(known.cursor);
        store.terminate(TerminateParams { run, cursor, effects: &effects, close: &close }).await
    }
}

/// What a journal tells, as far as it has been read.
#[derive(Default)]
struct Known {
    open: OpenCommands,
    children: OpenChildren,
    /// What the run's parent wants to hear.
    told: Option<NotifyParent>,
    /// How far the run has come.
    cursor: u64,
}

impl Known {
    fn read(&mut self, position: u64, entry: &Entry) {
        match &entry.what {
            // A run that has continued as new meanwhile: what it asked for before is no concern of it.
            EntryContent::Event(RunEvent::Started(started)) => {
                let told = started.parent.as_ref().map(|parent| parent.told);
                *self = Self { told, cursor: position.saturating_sub(1), ..Self::default() };
            }
            EntryContent::Event(_) => {}
            EntryContent::Commit(commit) => self.cursor = commit.upto,
        }
        self.open.read(entry);
        self.children.read(entry);
    }
}

/// Who is told of the end. The run's row says who that is, whatever became of its journal; what they want to hear only the
/// first entry says, and if it cannot be read they hear of the end as most do.
fn parent(info: &RunInfo, told: Option<NotifyParent>) -> Option<Parent> {
    let Kin { run, seq } = info.parent.clone()?;
    Some(Parent { run, seq, told: told.unwrap_or_default() })
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
            parent: Some(Kin { run: "parent".parse().unwrap(), seq: 4 }),
            attributes: Default::default(),
            next_alarm: None,
            output: Bytes::new(),
            error: None,
        }
    }

    #[test]
    fn a_parent_is_found_whatever_became_of_the_journal_and_hears_what_it_wants_to() {
        let info = child();
        let of = |told| Some(Parent { run: "parent".parse().unwrap(), seq: 4, told });
        assert_eq!(parent(&info, None), of(NotifyParent::End));
        let input = tidemill_core::workflow::Json::null();
        let started = RunStarted::new("order".parse().unwrap(), "1".parse().unwrap(), input);
        let started = RunStarted { parent: of(NotifyParent::Start), ..started };
        let mut known = Known::default();
        known.read(1, &Entry::event(Timestamp(0), RunEvent::Started(Box::new(started))));
        assert_eq!(parent(&info, known.told), of(NotifyParent::Start));
        assert_eq!(parent(&RunInfo { parent: None, ..info }, known.told), None);
    }
}
