//! Ending a run without asking its code.

use bytes::Bytes;
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::{Close, Parent as Kin, RunInfo, Terminate};
use tidemill_core::workflow::{
    ChildEnd, Children, Command, Entry, Event, OpenCommands, Parent, RunId, Status, Told, What,
};
use tidemill_core::{Error, Store};

use crate::wire::{Effects, Pages, Place, tell};

/// How often a run may get on while it is being looked at.
const LOOKS: usize = 100;

/// What terminating a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terminated {
    /// It has ended.
    Now,
    /// It had ended before, like this.
    Before(Status),
    /// There is no such run.
    NotFound,
}

impl Terminated {
    pub(crate) fn is_found(self) -> bool {
        self != Self::NotFound
    }
}

/// Ends a run. What it has asked for and got no answer to is called off; its parent is told.
pub(crate) async fn terminate(store: &dyn Store, run: &RunId, reason: &str) -> Result<Terminated, Error> {
    for _ in 0..LOOKS {
        let Some(info) = store.run(run).await? else { return Ok(Terminated::NotFound) };
        if info.status.is_closed() {
            return Ok(Terminated::Before(info.status));
        }
        if attempt(store, &info, reason).await? == Verdict::Accepted {
            return Ok(Terminated::Now);
        }
    }
    let message = format!("run `{run}` gets on too fast to be terminated");
    Err(Error::Unavailable { message, source: None })
}

async fn attempt(store: &dyn Store, info: &RunInfo, reason: &str) -> Result<Verdict, Error> {
    let run = &info.run;
    let asked = Asked::by(run, store).await?;
    let place = Place { run, queue: &info.queue, store, now: store.clock().now() };
    let mut effects = Effects::new(run, &info.queue, place.now);
    for open in asked.open.into_vec() {
        if let Command::ScheduleActivity(activity) = open.command {
            effects.cancel_activity(activity.seq);
        }
    }
    effects.orphan(&asked.children);
    let parent = parent(info, asked.told);
    let told = parent.and_then(|parent| tell(&parent, ChildEnd::Terminated, &place, &mut effects));
    let error = Some(reason.to_owned());
    let close = Close { status: Status::Terminated, output: Bytes::new(), error, told };
    let effects = effects.finish();
    store.terminate(Terminate { run, cursor: info.cursor, effects: &effects, close: &close }).await
}

/// What a run has asked for, as far as its end concerns it. Gathered page by page: its journal may be long.
#[derive(Default)]
struct Asked {
    open: OpenCommands,
    children: Children,
    /// What its parent wants to hear.
    told: Option<Told>,
}

impl Asked {
    async fn by(run: &RunId, store: &dyn Store) -> Result<Self, Error> {
        let (mut pages, mut asked) = (Pages::new(store, run), Self::default());
        loop {
            let page = pages.next().await?;
            if page.is_empty() {
                return Ok(asked);
            }
            // An entry that cannot be read must not keep anybody from ending the run.
            let entries = page.iter().filter_map(|(_, written)| Entry::read(&written.entry).ok());
            entries.for_each(|entry| asked.read(&entry));
        }
    }

    fn read(&mut self, entry: &Entry) {
        self.open.read(entry);
        self.children.read(entry);
        if let What::Event(Event::Started(started)) = &entry.what {
            self.told = started.parent.as_ref().map(|parent| parent.told);
        }
    }
}

/// Who is told of the end. The run's row says who that is, whatever became of its journal; what they want to hear only the
/// first entry says, and if it cannot be read they hear of the end as most do.
fn parent(info: &RunInfo, told: Option<Told>) -> Option<Parent> {
    let Kin { run, seq } = info.parent.clone()?;
    Some(Parent { run, seq, told: told.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use tidemill_core::Timestamp;
    use tidemill_core::workflow::Started;

    use super::*;

    fn child() -> RunInfo {
        RunInfo {
            run: "child".parse().unwrap(),
            workflow: "order".parse().unwrap(),
            version: "1".parse().unwrap(),
            status: Status::Running,
            queue: tidemill_core::workflow::WorkflowName::new("order").unwrap().queue(None),
            started_at: Timestamp(0),
            closed_at: None,
            cursor: 0,
            length: 0,
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
        assert_eq!(parent(&info, None), of(Told::End));
        let input = tidemill_core::workflow::Json::null();
        let started = Started::new("order".parse().unwrap(), "1".parse().unwrap(), input);
        let started = Started { parent: of(Told::Start), ..started };
        let mut asked = Asked::default();
        asked.read(&Entry::event(Timestamp(0), Event::Started(Box::new(started))));
        assert_eq!(parent(&info, asked.told), of(Told::Start));
        assert_eq!(parent(&RunInfo { parent: None, ..info }, asked.told), None);
    }
}
