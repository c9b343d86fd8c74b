//! What can go wrong, one file each.

pub mod killed;
