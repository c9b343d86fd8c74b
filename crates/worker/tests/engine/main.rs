//! The engine on an in-memory store with a paused clock and planned faults.

// A test that finds something missing should fail where it looked.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod build;
mod bulk;
mod cancel;
mod chains;
mod drain;
mod failures;
mod handlers;
mod idle;
mod leases;
mod locked;
mod outage;
mod plan;
mod planned;
mod prefetch;
mod prune;
mod registration;
mod shutdown;
mod starvation;
mod world;
