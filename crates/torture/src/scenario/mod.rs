//! The scenarios, one file each.

pub mod chains;
pub mod fleet;
pub mod killed;
pub mod order;
pub mod outage;
pub mod poison;
pub mod random;
pub mod shared;
pub mod stopped;
pub mod stopped_run;
pub mod workflows;
