//! The real binary, run in directories of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot be arranged has failed")]

mod bad_input;
mod demo;
mod exec;
mod foreign;
mod help;
mod json;
mod letters;
mod life;
mod place;
mod stop;
