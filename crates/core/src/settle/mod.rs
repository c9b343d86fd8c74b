//! The end of a claim: from the outcome of an attempt to the change that a store applies.

mod change;
mod decide;
pub mod expired;
mod outcome;

pub use change::{Change, NextJob};
pub(crate) use decide::distinct;
pub use decide::{
    DecideContext, decide, decide_abandoned, decide_exhausted, decide_expired, decide_malformed,
};
pub use outcome::Outcome;

use crate::lease::Lease;

/// A claim to end, and the change to apply.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The lease of the claim.
    pub lease: Lease,
    /// The change.
    pub change: Change,
}
