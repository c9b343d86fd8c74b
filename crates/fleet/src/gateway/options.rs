//! The gateway's options.

use std::time::Duration;

use tidemill_core::Client;
use tidemill_core::fleet::WorkerDefaults;
use tokio_util::sync::CancellationToken;

use super::Gateway;
use super::access::AccessControl;
use super::token::AccessToken;
use crate::timing::LeaseOptions;

/// Limits and defaults of a gateway.
#[derive(Debug, Clone)]
pub(crate) struct GatewayOptions {
    /// The most clients that may wait for a kind of browser, at all gateways together.
    pub(crate) queue_size: u32,
    /// How long a client waits.
    pub(crate) queue_time: Duration,
    /// How long a lease lasts without renewal.
    pub(crate) lease: LeaseOptions,
    /// How long a browser may take to answer.
    pub(crate) dial_time: Duration,
    /// How long a session may last.
    pub(crate) session_time: Option<Duration>,
    /// How long a session may be idle.
    pub(crate) idle_time: Option<Duration>,
    /// The longest time a session may outlive its connection.
    pub(crate) keep_most: Duration,
    /// How long sessions may continue when the gateway stops.
    pub(crate) grace: Duration,
    /// The most connections, sessions and others.
    pub(crate) max_connections: usize,
    /// Assumptions about workers whose entries lack these values.
    pub(crate) worker_defaults: WorkerDefaults,
    /// Ends the grace period early.
    pub(crate) skip_grace: CancellationToken,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            queue_size: 100,
            queue_time: Duration::from_secs(30),
            lease: LeaseOptions::default(),
            dial_time: Duration::from_secs(5),
            session_time: None,
            idle_time: Some(Duration::from_secs(30 * 60)),
            keep_most: Duration::from_secs(10 * 60),
            grace: Duration::from_secs(30),
            max_connections: 10_000,
            worker_defaults: WorkerDefaults::default(),
            skip_grace: CancellationToken::new(),
        }
    }
}

impl Gateway {
    /// A gateway to the fleet in the client's store.
    pub fn new(client: &Client) -> Self {
        Self {
            store: client.store().clone(),
            access: AccessControl::default(),
            options: GatewayOptions::default(),
        }
    }

    /// Accepts this token. Once there is one, a token is required.
    pub fn token(mut self, token: AccessToken) -> Self {
        self.access.tokens.add(token);
        self
    }

    /// Accepts this host name besides `localhost` and addresses.
    pub fn allow_host(mut self, host: &str) -> Self {
        self.access.allowed_hosts.insert(super::access::strip_port(host).to_ascii_lowercase());
        self
    }

    /// Accepts requests from pages of this origin, such as `https://app.example`.
    pub fn allow_origin(mut self, origin: &str) -> Self {
        self.access.allowed_origins.insert(origin.trim_end_matches('/').to_ascii_lowercase());
        self
    }

    /// The most clients that may wait for a kind of browser at all gateways together, and how long
    /// each waits. Default: 100 and 30 s. With size 0 nobody waits.
    pub fn queue(mut self, size: u32, time: Duration) -> Self {
        (self.options.queue_size, self.options.queue_time) = (size, time);
        self
    }

    /// The duration of a session lease. Default: 15 s; at least 14 s. If a gateway dies, its
    /// browsers are unavailable for that long. With a shorter lease, a store outage between two
    /// heartbeats of an agent would cost clients their browsers. [`check`](Self::check) and
    /// [`serve`](Self::serve) reject it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = LeaseOptions { duration: lease, allow_short: false };
        self
    }

    /// Like [`lease`](Self::lease) without a lower bound, for tests.
    #[doc(hidden)]
    pub fn lease_unchecked(mut self, lease: Duration) -> Self {
        self.options.lease =
            LeaseOptions { duration: lease.max(Duration::from_millis(100)), allow_short: true };
        self
    }

    /// How long a browser may take to answer before the next is tried. Default: 5 s.
    pub fn dial_time(mut self, time: Duration) -> Self {
        self.options.dial_time = time;
        self
    }

    /// How long a session may last. Default: no limit.
    pub fn session_time(mut self, time: Option<Duration>) -> Self {
        self.options.session_time = time;
        self
    }

    /// How long a session may be idle, with no byte either way. Default: 30 min.
    pub fn idle_time(mut self, time: Option<Duration>) -> Self {
        self.options.idle_time = time;
        self
    }

    /// The longest time a session may ask to outlive its connection. Default: 10 min.
    pub fn keep_most(mut self, time: Duration) -> Self {
        self.options.keep_most = time;
        self
    }

    /// How long sessions may continue when the gateway stops. Default: 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.grace = grace;
        self
    }

    /// Ends the grace period when the token is cancelled.
    pub fn skip_grace(mut self, hurry: CancellationToken) -> Self {
        self.options.skip_grace = hurry;
        self
    }

    /// The most connections. Default: 10,000. Beyond that none is accepted until one ends.
    pub fn connections(mut self, most: usize) -> Self {
        self.options.max_connections = most.max(1);
        self
    }

    /// Assumptions about workers that other programs registered.
    pub fn worker_defaults(mut self, standard: WorkerDefaults) -> Self {
        self.options.worker_defaults = standard;
        self
    }
}
