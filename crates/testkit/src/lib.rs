//! What Tidemill is tested with: real servers, injected faults, and the conformance suite that defines a store.
//!
//! A dev-dependency only. It knows the contract, never a store or an engine.

pub mod browser;
pub mod conformance;
pub mod crowd;
pub mod faults;
pub mod lost_answers;
pub mod servers;
