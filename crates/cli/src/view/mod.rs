//! Live views of a worker: changing lines on a terminal, plain lines elsewhere.

mod counts_line;
mod events;
mod queues;
mod rate;

pub(crate) use counts_line::show_counts;
pub(crate) use events::EventLog;
pub(crate) use queues::QueueView;
