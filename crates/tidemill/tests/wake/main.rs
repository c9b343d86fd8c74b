//! Jobs in PostgreSQL or SQLite whose workers are woken through Redis, by our own processes and by others'.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod foreign;
mod latency;
mod outage;
mod process;
mod world;
