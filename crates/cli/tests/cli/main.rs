//! The real binary, run in directories of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bad_input;
mod chain;
mod client;
mod demo;
mod exec;
mod fleet;
mod foreign;
mod help;
mod json;
mod letters;
mod life;
mod log;
mod output;
mod place;
mod stop;
mod workflow;
