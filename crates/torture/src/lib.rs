//! Torture tests with real processes and real kills: checks Tidemill's guarantees under failures.
//!
//! A scenario starts worker processes on a real store. Their jobs write every event to a [ledger].
//! The scenario kills, stops or aborts the workers, or takes the store away. Then it compares the
//! ledger with the store: no job is lost, settled twice or left behind.
//!
//! The tests of this crate run each scenario once on each store. `cargo xtask torture` runs them
//! for a given time.

pub mod audit;
pub mod environment;
pub mod gateway_process;
pub mod job;
pub mod journals;
pub mod kill_point_store;
pub mod kill_points;
pub mod ledger;
pub mod leftovers;
pub mod namespace;
pub mod order_workflow;
pub mod program;
pub mod scenario;
pub mod test_store;
pub mod transfer;
pub mod user_table;
pub mod worker_main;
pub mod worker_process;

pub use environment::Environment;
pub use test_store::{StoreKind, TestStore};
