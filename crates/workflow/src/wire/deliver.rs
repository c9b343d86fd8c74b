//! Saying something to a run.

use tidemill_core::store::runs::{Delivered, Delivery, EntryKind, Written};
use tidemill_core::workflow::{Entry, Event, RunId};
use tidemill_core::{Error, Store};

/// Delivers one event; with an id, once however often this is called.
pub(crate) async fn deliver(
    store: &dyn Store,
    run: &RunId,
    event: Event,
    id: Option<String>,
) -> Result<Delivered, Error> {
    let (kind, seq) = kind_of(&event);
    let written = Written { kind, entry: Entry::event(store.clock().now(), event).write() };
    let delivery = Delivery { run: run.clone(), written, id, seq };
    let delivered = store.deliver(std::slice::from_ref(&delivery)).await?;
    Ok(delivered.first().copied().unwrap_or(Delivered::NotFound))
}

/// What a store has to know of an event, and the command it answers.
pub(crate) fn kind_of(event: &Event) -> (EntryKind, Option<u64>) {
    match event {
        Event::Signal(_) | Event::Update { .. } | Event::CancelRequested { .. } => (EntryKind::Message, None),
        Event::Started(_) => (EntryKind::Answer, None),
        Event::ActivityDone { seq, .. }
        | Event::TimerFired { seq }
        | Event::ChildStarted { seq, .. }
        | Event::ChildDone { seq, .. }
        | Event::SignalSent { seq, .. } => (EntryKind::Answer, Some(*seq)),
    }
}
