//! The gateway: one address for all browsers. Leases one to each client and copies bytes between
//! them.
//!
//! A client connects as it would to a browser. The gateway parses what it requests (`request`), leases
//! a browser with one store call, or waits for one (`acquire`), dials it, and forwards the client's
//! handshake and the browser's response (`open`). From then on it copies bytes without inspecting
//! them (`session`). The lease client (`crate::lease`) keeps the store up to date.

mod access;
mod acquire;
mod api;
mod connection;
mod http_error;
mod metrics;
mod open;
mod options;
mod protocol;
mod reaper;
mod reconnect;
mod request;
mod route;
mod serve;
mod session;
mod shared;
mod token;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tidemill_core::Store;

pub use token::{AccessToken, InvalidToken, Scope};

use access::AccessControl;
use options::GatewayOptions;

pub use crate::timing::LeaseTooShort;

/// One address for all browsers. Configured by its methods, run by [`serve`](Gateway::serve).
///
/// ```no_run
/// # async fn example(client: tidemill_core::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tidemill_fleet::gateway::Gateway;
///
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:7718").await?;
/// let gateway = Gateway::new(&client).queue(100, Duration::from_secs(30)).session_time(Some(Duration::from_secs(3600)));
/// gateway.serve(listener, std::future::pending()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Gateway {
    store: Arc<dyn Store>,
    access: AccessControl,
    options: GatewayOptions,
}

/// Why a gateway does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Anyone could use its browsers and read other users' pages.
    #[error("the gateway does not listen on {0} without a token: whoever reaches it could use every browser")]
    Exposed(SocketAddr),
    /// Its leases would not outlast every outage of the store.
    #[error(transparent)]
    Lease(#[from] LeaseTooShort),
    /// It cannot listen.
    #[error("the gateway cannot listen")]
    Io(#[from] io::Error),
}
