//! The worker on an in-memory store with a paused clock and planned faults.

// A test that does not find what it expects should fail at that point.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod build;
mod bulk;
mod cancel;
mod chains;
mod client;
mod drain;
mod failures;
mod fault_plan;
mod faulty_store;
mod handlers;
mod idle;
mod leases;
mod locked;
mod outage;
mod prefetch;
mod prune;
mod registration;
mod shutdown;
mod span;
mod starvation;
mod world;
