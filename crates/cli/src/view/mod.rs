//! Watching a worker: lines that change on a terminal, plain lines elsewhere.

mod events;
mod line;
mod queues;
mod rate;

pub(crate) use events::EventLog;
pub(crate) use line::watch;
pub(crate) use queues::QueueView;
