//! The queue verbs, and the rows of queues.

mod list_queues;
mod pause;
mod purge;
pub(crate) mod queue_row;
mod resume;

pub(crate) use list_queues::list_queues;
pub(crate) use pause::pause;
pub(crate) use purge::purge;
pub(crate) use queue_row::NumberedQueue;
pub(crate) use resume::resume;
