//! The browser fleet: agents that run browsers, a gateway that leases them to clients, and jobs
//! that use them.

pub mod agent;
pub mod browser;
mod cdp;
pub mod gateway;
mod histogram;
mod lease;
mod net;
mod timing;
