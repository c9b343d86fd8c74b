//! What the running side says to stores: the messages of runs, their errands, and what a commit leads to.

mod birth;
mod deliver;
mod effects;
mod errand;
mod reading;
mod task;
mod told;

pub(crate) use birth::{Birth, check_key, route_of};
pub(crate) use deliver::{deliver, kind_of};
pub(crate) use effects::Effects;
pub(crate) use errand::{ERRAND, Errand, started_by};
pub(crate) use reading::{Pages, entries, read_all};
pub(crate) use task::Task;
pub(crate) use told::{Place, tell};
