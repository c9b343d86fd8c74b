//! The bells, with claims driven by hand: whoever is not woken is not polled, so a forgotten wake-up shows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod economy;
mod nothing_is_lost;
mod world;
