//! The agent with real browsers, on a store in a file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod death;
mod ingress;
mod life;
mod outage;
mod proc;
mod recycle;
mod scene;
mod servers;
