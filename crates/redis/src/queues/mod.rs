//! The queue verbs, a file for each.

mod list_queues;
mod pause;
mod purge;
mod register;
mod resume;
