//! Browser jobs on a real browser, with pages that the tests serve themselves.

// A test that finds something missing should fail where it looked.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(feature = "chromiumoxide")]
mod chromiumoxide;
mod egress;
mod errors;
mod jobs;
mod large;
mod launcher;
mod leasing;
mod pages;
mod site;
mod world;
