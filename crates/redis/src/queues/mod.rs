//! The queue verbs, one file each.

mod list_queues;
mod pause;
mod purge;
mod register;
mod resume;
