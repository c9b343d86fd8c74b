//! The cost of workflows in round trips, time and memory. Round trips are asserted; time and memory
//! are measured in release, by hand: `cargo test --release -p tidemill --test figures -- --ignored
//! --nocapture --test-threads 1`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a measurement is printed")]

mod children;
mod parked;
mod records;
mod timers;
mod trips;
mod world;
