//! Jobs in PostgreSQL or SQLite with wake-ups through Redis, from our own processes and from
//! others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod foreign;
mod latency;
mod outage;
mod process;
mod world;
