//! The documented Redis commands of other programs about workflows and workers, against a live
//! store without a namespace.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod claims;
mod fairness;
mod instances;
mod messages;
mod registry;
mod world;
