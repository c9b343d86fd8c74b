//! Test support: real servers, injected faults, and the conformance suite that defines a store.
//!
//! A dev-dependency only. It depends on the store contract, never on a store or an engine.

pub mod browser;
pub mod conformance;

pub mod faults;
pub mod fixtures;
pub mod idle_claims;
pub mod lost_answers;
pub mod servers;
pub mod upgrade;
