//! The browser fleet: agents that start browsers and enter them, a gateway that hands them to clients, and the jobs
//! that use them.

pub mod agent;
pub mod browse;
pub mod gateway;
mod terms;
mod wire;
