//! Real processes, real kills: what Tidemill promises, held against what can go wrong.
//!
//! A scenario starts worker processes on a real store, has them run jobs that note every step in a
//! [ledger], and kills, stops or aborts them, or takes the store away. Then it holds the ledger against
//! the store: nothing lost, nothing settled twice, nothing left behind.
//!
//! The tests of this crate run each scenario on each store once; `cargo xtask torture` runs them for as long
//! as it is told to.

pub mod act;
pub mod audit;
pub mod books;
pub mod crew;
pub mod duty;
pub mod fate;
pub mod harbour;
pub mod journals;
pub mod ledger;
pub mod leftovers;
pub mod place;
pub mod program;
pub mod purchase;
pub mod room;
pub mod scenario;
pub mod stage;
pub mod transfer;
pub mod watched;

pub use place::{Kind, Place};
pub use stage::Stage;
