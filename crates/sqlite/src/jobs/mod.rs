//! The job verbs: what each does to the rows, inside a transaction that the writer opens and commits.

mod cancel;
mod claim;
mod end;
mod enqueue;
mod find;
mod lease;
mod letters;
mod promote;
mod prospect;
mod prune;
mod purge;
mod queue;
mod recover;
mod settle;

pub(crate) use cancel::{cancel, cancel_silently};
pub(crate) use claim::claim;
pub(crate) use end::{Freed, keep_record};
pub(crate) use enqueue::{add_all, due, enqueue};
pub(crate) use find::{Found, Place, find, remove_row};
pub(crate) use lease::{clock_went_back, expired, extend, start};
pub(crate) use letters::{drop_letters, redrive};
pub(crate) use promote::promote;
pub(crate) use prune::prune;
pub(crate) use purge::purge;
pub(crate) use queue::{Line, arrive, find as find_queue, find_or_add as find_or_add_queue, pause, resume};
pub(crate) use recover::recover;
pub(crate) use settle::{is_current, rescue, settle, settle_one};
