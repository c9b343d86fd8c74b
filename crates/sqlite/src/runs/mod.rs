//! Workflows: runs, their journals and their alarms. Everything happens under the one write lock, so a commit, the events
//! it races with and the next task are always in some order.

mod alarms;
mod close;
mod commit;
mod deliver;
mod effects;
mod inspect;
mod instance;
mod journal;
mod list;
mod prune;
mod start;
mod task;
mod terminate;

pub(crate) use alarms::{next_alarm, ring};
pub(crate) use commit::commit;
pub(crate) use deliver::{deliver, deliver_one, tell_of_removed};
pub(crate) use inspect::run;
pub(crate) use journal::journal;
pub(crate) use list::list;
pub(crate) use prune::prune;
pub(crate) use start::start;
pub(crate) use task::Wanted;
pub(crate) use terminate::terminate;
