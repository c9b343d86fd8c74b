//! The gateway: one address for all browsers. Leases one to each client and passes bytes between them.
//!
//! A client connects as it would to a browser. The gateway finds out what it wants (`wish`), leases a browser in one
//! trip to the store (`open`, or `line` if it has to wait), dials it, and passes on the client's handshake and the
//! browser's answer. From then on it copies bytes and never looks at them (`session`). What it holds is in
//! `holdings`; the `keeper` tells the store of it, all at once.

mod api;
mod connection;
mod desk;
mod door;
mod ear;
mod holdings;
mod keeper;
mod line;
mod metrics;
mod open;
mod options;
mod place;
mod protocol;
mod query;
mod reaper;
mod reconnect;
mod refusal;
mod route;
mod serve;
mod session;
mod span;
mod token;
mod wish;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tidemill_core::Store;

pub use token::{InvalidToken, Scope, Token};

use door::Door;
use options::Options;

pub use crate::terms::LeaseTooShort;

/// One address for all browsers. Set up by its methods, run by [`serve`](Gateway::serve).
///
/// ```no_run
/// # async fn example(client: tidemill_core::Mill) -> Result<(), Box<dyn std::error::Error>> {
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
    door: Door,
    options: Options,
}

/// Why a gateway does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Anybody could use its browsers, and see what their neighbours see.
    #[error("the gateway does not listen on {0} without a token: whoever reaches it could use every browser")]
    Exposed(SocketAddr),
    /// Its leases would not outlast every outage of the store.
    #[error(transparent)]
    Lease(#[from] LeaseTooShort),
    /// It cannot listen.
    #[error("the gateway cannot listen")]
    Io(#[from] io::Error),
}
