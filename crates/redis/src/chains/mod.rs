//! Chains: jobs that wait for chains, and chains that are started once per key.
//!
//! An operation on one shard is one script. An operation on two is an
//! [`OutboxEntry`](outbox::OutboxEntry): the first script adds it, its caller processes it at once,
//! and any promoter processes it if the caller dies. Every step may be repeated.

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

pub(crate) use change::{SettleChanges, check_next_queue};
