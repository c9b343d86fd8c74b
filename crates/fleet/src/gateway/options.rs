//! How a gateway is set up.

use std::time::Duration;

use tidemill_core::Client;
use tidemill_core::fleet::WorkerDefaults;
use tokio_util::sync::CancellationToken;

use super::Gateway;
use super::door::Door;
use super::token::Token;
use crate::terms::Lease;

/// What can be said about how a gateway treats its clients.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// How many clients may wait for a browser of a kind, at all gateways together.
    pub(crate) queue_size: u32,
    /// How long one waits.
    pub(crate) queue_time: Duration,
    /// How long a session is leased, unless it is extended.
    pub(crate) lease: Lease,
    /// How long a browser may take to answer.
    pub(crate) dial_time: Duration,
    /// How long a session may last.
    pub(crate) session_time: Option<Duration>,
    /// How long a session may be silent.
    pub(crate) idle_time: Option<Duration>,
    /// The longest a session may outlive its connection.
    pub(crate) keep_most: Duration,
    /// How long sessions may go on when the gateway is told to stop.
    pub(crate) grace: Duration,
    /// How many connections there may be, sessions and others.
    pub(crate) connections: usize,
    /// What is taken for granted of workers that do not say.
    pub(crate) standard: WorkerDefaults,
    /// Ends the grace early.
    pub(crate) hurry: CancellationToken,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue_size: 100,
            queue_time: Duration::from_secs(30),
            lease: Lease::default(),
            dial_time: Duration::from_secs(5),
            session_time: None,
            idle_time: Some(Duration::from_secs(30 * 60)),
            keep_most: Duration::from_secs(10 * 60),
            grace: Duration::from_secs(30),
            connections: 10_000,
            standard: WorkerDefaults::default(),
            hurry: CancellationToken::new(),
        }
    }
}

impl Gateway {
    /// A gateway to the fleet of this store.
    pub fn new(client: &Client) -> Self {
        Self { store: client.store().clone(), door: Door::default(), options: Options::default() }
    }

    /// Lets in whoever has this token. With the first one, nobody gets in without.
    pub fn token(mut self, token: Token) -> Self {
        self.door.tokens.add(token);
        self
    }

    /// A name that clients may call this gateway by, beside `localhost` and addresses.
    pub fn allow_host(mut self, host: &str) -> Self {
        self.door.hosts.insert(super::door::name_of(host).to_ascii_lowercase());
        self
    }

    /// Lets in pages of this origin, such as `https://app.example`.
    pub fn allow_origin(mut self, origin: &str) -> Self {
        self.door.origins.insert(origin.trim_end_matches('/').to_ascii_lowercase());
        self
    }

    /// How many clients may wait for a browser of a kind, at all gateways together, and how long. 100 and 30 s unless set;
    /// with a size of 0 nobody waits.
    pub fn queue(mut self, size: u32, time: Duration) -> Self {
        (self.options.queue_size, self.options.queue_time) = (size, time);
        self
    }

    /// How long a session is leased: so long are the browsers of a gateway that died not free. 15 s unless set, and 14 s at
    /// least: under a shorter one a store that is away for a moment, between two beats of an agent, would cost clients their
    /// browsers. [`check`](Self::check) and [`serve`](Self::serve) refuse it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Lease { time: lease, brief: false };
        self
    }

    /// Like [`lease`](Self::lease), but takes any: for tests that cannot wait.
    #[doc(hidden)]
    pub fn brief_lease(mut self, lease: Duration) -> Self {
        self.options.lease = Lease { time: lease.max(Duration::from_millis(100)), brief: true };
        self
    }

    /// How long a browser may take to answer before the next one is tried. 5 s unless set.
    pub fn dial_time(mut self, time: Duration) -> Self {
        self.options.dial_time = time;
        self
    }

    /// How long a session may last. For ever unless set.
    pub fn session_time(mut self, time: Option<Duration>) -> Self {
        self.options.session_time = time;
        self
    }

    /// How long a session may be silent, with no byte either way. 30 min unless set.
    pub fn idle_time(mut self, time: Option<Duration>) -> Self {
        self.options.idle_time = time;
        self
    }

    /// The longest a session may ask to outlive its connection. 10 min unless set.
    pub fn keep_most(mut self, time: Duration) -> Self {
        self.options.keep_most = time;
        self
    }

    /// How long sessions may go on when the gateway is told to stop. 30 s unless set.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.grace = grace;
        self
    }

    /// Ends the grace at once when it is cancelled.
    pub fn hurry(mut self, hurry: CancellationToken) -> Self {
        self.options.hurry = hurry;
        self
    }

    /// How many connections there may be. 10,000 unless set; beyond that nobody is accepted until one ends.
    pub fn connections(mut self, most: usize) -> Self {
        self.options.connections = most.max(1);
        self
    }

    /// What is taken for granted of workers that other programs entered.
    pub fn standard(mut self, standard: WorkerDefaults) -> Self {
        self.options.standard = standard;
        self
    }
}
