//! Bytes between a client and a browser: how a browser is dialled, and how what it says is passed on.

/// As many headers as a gateway lets a client send, on every part of the way.
pub(crate) const MOST_HEADERS: usize = 100;

mod dial;
mod endpoint;
mod request;
mod splice;
mod tune;

pub(crate) use dial::{Answer, DialError, dial};
pub(crate) use endpoint::Endpoint;
pub(crate) use request::{Request, agreement};
pub(crate) use splice::{Side, Traffic, splice};
pub(crate) use tune::tune;
