//! Wake-ups published by hand, on every store: none of them ends anything, and what was really asked for arrives at once.

#![cfg(all(feature = "fleet", feature = "sqlite", feature = "redis", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod jobs;
mod place;
mod runs;
mod sessions;
