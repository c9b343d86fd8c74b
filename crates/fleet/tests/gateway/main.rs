//! The gateway between clients and servers that echo, on a store in memory.

// A test that finds something missing should fail where it looked.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod browser;
mod client;
mod dial;
mod keep;
mod outage;
mod real;
mod routing;
mod sessions;
mod shutdown;
mod waiting;
mod world;
