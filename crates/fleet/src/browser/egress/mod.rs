//! Egress control: keeps pages away from addresses they must not reach.
//!
//! All traffic of a job goes through a proxy of its own in the worker's process. The proxy resolves
//! each name itself and connects only to addresses that it has checked. So redirects, frames,
//! sub-resources, WebSockets and DNS rebinding are all decided in one place.

mod address;
mod blocked;
mod forward;
mod local_address;
mod policy;
mod proxy;
mod rule;

pub(crate) use blocked::BlockedLog;
pub(crate) use forward::REFUSED_HEADER;
pub use policy::EgressPolicy;
pub(crate) use proxy::{EgressProxy, ProxyClients};
pub use rule::{EgressRule, InvalidRule};
