//! Chains: jobs that wait for chains, chains that are started once per key, and ends from outside.
//!
//! Whatever concerns one shard is one script. What concerns two is an [`Errand`](outbox::Errand): written down in
//! the script that makes it necessary, carried on at once by its caller, and by anyone who promotes if that one dies.
//! Every step of an errand may be repeated.

pub(crate) mod blocked_job;
mod chain_state;
mod change;
mod dedup;
mod link;
mod linked_job;
mod notify;
pub(crate) mod outbox;
mod register_wait;
mod reserved_chain;

pub(crate) use change::{Changes, next_queue};
