//! The job verbs: what each does to the rows, inside a transaction that the writer opens and commits.

mod cancel;
mod claim;
mod enqueue;
mod lease;
mod letters;
mod promote;
mod prospect;
mod prune;
mod queue;
mod settle;

pub(crate) use cancel::cancel;
pub(crate) use claim::claim;
pub(crate) use enqueue::enqueue;
pub(crate) use lease::{expired, extend, start};
pub(crate) use letters::{drop_letters, redrive};
pub(crate) use promote::promote;
pub(crate) use prune::prune;
pub(crate) use queue::{find as find_queue, pause, purge, resume};
pub(crate) use settle::{rescue, settle};
