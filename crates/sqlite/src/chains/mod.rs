//! Chains: jobs that continue one another, wait for one another and are started once. Everything happens under the
//! one write lock, so that a chain has either told those who wait for it or will find them.

mod blocks;
mod close;
mod complete;
mod dedup;
mod delete;
mod step;

pub(crate) use blocks::{Blocks, stop_waiting, waits_for};
pub(crate) use close::{close, close_removed};
pub(crate) use complete::{complete, complete_one};
pub(crate) use dedup::find_by_key;
pub(crate) use delete::delete;
pub(crate) use step::advance;
