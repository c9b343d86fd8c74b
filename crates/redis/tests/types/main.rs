//! Keys that hold something else than they should: a verb that fails for one of them names it and has changed nothing, because
//! scripts do not roll back.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's name is its documentation; it fails by panicking"
)]

mod fleet;
mod jobs;
mod runs;
mod stage;
