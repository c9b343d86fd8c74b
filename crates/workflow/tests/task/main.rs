//! Workflows on a real worker and a real store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod activities;
mod basics;
mod blocked;
mod cancel;
mod children;
mod conflicts;
mod continued;
mod diagnose;
mod foreign_start;
mod joins;
mod limits;
mod lost_commit;
mod queries;
mod reset;
mod restart;
mod routes;
mod stale;
mod world;
