//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod browser;
pub(crate) mod chain;
pub(crate) mod dev;
pub(crate) mod dlq;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod fleet;
pub(crate) mod gateway;
pub(crate) mod job;
pub(crate) mod queue;
pub(crate) mod session;
pub(crate) mod worker;
pub(crate) mod workflow;
