//! Watching a worker: a line that changes on a terminal, plain lines elsewhere.

mod events;
mod line;
mod rate;

pub(crate) use events::EventLog;
pub(crate) use line::watch;
pub(crate) use rate::Rate;
