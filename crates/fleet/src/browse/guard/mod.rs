//! What keeps a page away from addresses it must not reach.
//!
//! All of a job's traffic goes through a proxy of its own in the worker's process. The proxy resolves each name itself, dials
//! only addresses that are allowed, and dials what it has checked: so redirects, frames, sub-resources, web sockets and
//! names that change their address between two looks are all decided in one place.

mod address;
mod ledger;
mod own;
mod proxy;
mod reach;
mod relay;
mod rule;

pub(crate) use ledger::Ledger;
pub(crate) use proxy::{Peers, Proxy};
pub use reach::Reach;
pub(crate) use relay::REFUSED;
pub use rule::{InvalidRule, Rule};
