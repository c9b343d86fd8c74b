//! What can go wrong, one file each.

pub mod chains;
pub mod killed;
pub mod outage;
pub mod poison;
pub mod random;
pub mod stopped;
