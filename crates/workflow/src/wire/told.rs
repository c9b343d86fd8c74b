//! How a parent hears of its child's end.

use tidemill_core::store::runs::{Delivery, EntryKind, StoredEntry};
use tidemill_core::workflow::{ChildResult, Entry, NotifyParent, Parent, RunEvent, RunId};
use tidemill_core::{Queue, Store, Timestamp};

use super::effects::Effects;
use super::errand::Errand;

/// Which run changes, and where.
pub(crate) struct Place<'a> {
    pub(crate) run: &'a RunId,
    pub(crate) queue: &'a Queue,
    pub(crate) store: &'a dyn Store,
    pub(crate) now: Timestamp,
}

/// What the parent is told: in the same step if it lies near, by an errand if not.
pub(crate) fn tell(
    parent: &Parent,
    result: ChildResult,
    place: &Place<'_>,
    effects: &mut Effects<'_>,
) -> Option<Delivery> {
    if parent.told == NotifyParent::Start {
        return None;
    }
    let (run, seq) = (parent.run.clone(), parent.seq);
    let event = RunEvent::ChildDone { seq, result };
    if !place.store.same_shard(place.run, &run) {
        effects.errand(0, &Errand::Tell { run, event });
        return None;
    }
    let written = StoredEntry { kind: EntryKind::Answer, entry: Entry::event(place.now, event).write() };
    Some(Delivery { run, written, id: None, seq: Some(seq) })
}
