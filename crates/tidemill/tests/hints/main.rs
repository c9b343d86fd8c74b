//! Wake-ups published by hand, on every store: none of them ends anything, and real requests arrive
//! at once.

#![cfg(all(feature = "fleet", feature = "sqlite", feature = "redis", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod jobs;
mod place;
mod runs;
mod sessions;
