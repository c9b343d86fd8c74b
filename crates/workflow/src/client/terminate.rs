//! Ending a run without asking its code.

use bytes::Bytes;
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::{Close, RunInfo, Terminate};
use tidemill_core::workflow::{
    ChildEnd, Children, Command, Entry, Event, RunId, Status, What, open_commands,
};
use tidemill_core::{Error, Store};

use crate::wire::{Effects, Place, read_all, tell};

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
    let all = read_all(store, run).await?;
    // An entry that cannot be read must not keep anybody from ending the run.
    let entries: Vec<_> = all.iter().filter_map(|(_, written)| Entry::read(&written.entry).ok()).collect();
    let place = Place { run, queue: &info.queue, store, now: store.clock().now() };
    let mut effects = Effects::new(run, &info.queue, place.now);
    for open in open_commands(&entries) {
        if let Command::ScheduleActivity(activity) = open.command {
            effects.cancel_activity(activity.seq);
        }
    }
    effects.orphan(&Children::of(&entries));
    let told = parent(&entries).and_then(|parent| tell(parent, ChildEnd::Terminated, &place, &mut effects));
    let error = Some(reason.to_owned());
    let close = Close { status: Status::Terminated, output: Bytes::new(), error, told };
    let effects = effects.finish();
    store.terminate(Terminate { run, cursor: info.cursor, effects: &effects, close: &close }).await
}

fn parent(entries: &[Entry]) -> Option<&tidemill_core::workflow::Parent> {
    match &entries.first()?.what {
        What::Event(Event::Started(started)) => started.parent.as_ref(),
        _ => None,
    }
}
