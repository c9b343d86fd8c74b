//! Connections between clients and browsers: dialling a browser, and copying bytes.

/// The most headers of a request or response, the same on every hop.
pub(crate) const MAX_HEADERS: usize = 100;

mod dial;
mod endpoint;
mod socket;
mod splice;
mod upgrade;

pub(crate) use dial::{DialError, UpgradeResponse, dial};
pub(crate) use endpoint::Endpoint;
pub(crate) use socket::configure_socket;
pub(crate) use splice::{PeerStream, Traffic, splice};
pub(crate) use upgrade::{UpgradeRequest, encode_response};
