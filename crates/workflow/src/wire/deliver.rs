//! Saying something to a run.

use tidemill_core::store::runs::{Delivered, Delivery, EntryKind, StoredEntry};
use tidemill_core::workflow::{Entry, RunEvent, RunId};
use tidemill_core::{Error, Store};

/// Delivers one event; with an id, once however often this is called.
pub(crate) async fn deliver(
    store: &dyn Store,
    run: &RunId,
    event: RunEvent,
    id: Option<String>,
) -> Result<Delivered, Error> {
    let (kind, seq) = kind_of(&event);
    let written = StoredEntry { kind, entry: Entry::event(store.clock().now(), event).write() };
    let delivery = Delivery { run: run.clone(), written, id, seq };
    let delivered = store.deliver(std::slice::from_ref(&delivery)).await?;
    Ok(delivered.first().copied().unwrap_or(Delivered::NotFound))
}

/// What a store has to know of an event, and the command it answers.
pub(crate) fn kind_of(event: &RunEvent) -> (EntryKind, Option<u64>) {
    match event {
        RunEvent::Signal(_) | RunEvent::Update { .. } | RunEvent::CancelRequested { .. } => {
            (EntryKind::Message, None)
        }
        RunEvent::Started(_) => (EntryKind::Answer, None),
        RunEvent::ActivityDone { seq, .. }
        | RunEvent::TimerFired { seq }
        | RunEvent::ChildStarted { seq, .. }
        | RunEvent::ChildDone { seq, .. }
        | RunEvent::SignalSent { seq, .. } => (EntryKind::Answer, Some(*seq)),
    }
}
