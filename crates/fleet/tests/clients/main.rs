//! Real clients of real browsers: Playwright and Puppeteer, through one gateway, at what an agent
//! runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "times are shown, and not asserted")]

mod client;
mod close;
mod flush;
mod keep;
#[path = "../agent/proc.rs"]
#[allow(dead_code, reason = "the agent's tests use all of it")]
mod proc;
mod recycle;
mod site;
mod udp;
mod versions;
mod ways;
mod world;
