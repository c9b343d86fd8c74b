//! Chains: jobs that wait for chains, chains that are started once per key, and ends from outside.
//!
//! Whatever concerns one shard is one script. What concerns two is an [`Errand`](errand::Errand): written down in
//! the script that makes it necessary, carried on at once by its caller, and by anyone who promotes if that one dies.
//! Every step of an errand may be repeated.

mod act;
mod begin;
mod change;
mod complete;
mod dedup;
mod delete;
mod draft;
pub(crate) mod errand;
mod look;
mod recipe;
mod register;
mod tell;
pub(crate) mod wait;

pub(crate) use act::{TRIES, keeps_moving};
pub(crate) use change::{Changes, next_queue};
