//! The wait queues, with claims that the test drives: a claim that is not woken is not polled, so a
//! missing wake-up is detected.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod nothing_is_lost;
mod poll_count;
mod world;
