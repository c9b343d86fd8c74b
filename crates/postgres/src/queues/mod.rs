//! The queue verbs.

mod list_queues;
mod pause;
mod purge;
