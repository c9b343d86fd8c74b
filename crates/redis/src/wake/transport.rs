//! A transport of wake-ups through Redis for other stores: the protocol of `@queuert/redis`, with
//! hints.
//!
//! Two connections, one for commands and one for subscriptions, are opened on first use. Redis
//! keeps no essential state here; during an outage, workers find jobs by polling.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidemill_core::store::{Finding, Severity};
use tidemill_core::wake::{Bus, Transport};
use tidemill_core::{Error, Namespace};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::announcement::TakeHint;
use super::command_connection::CommandConnection;
use super::hint::Hint;
use super::outage_log::OutageLog;
use super::own_hints::OwnHints;
use super::{announcement, publisher, subscriber};
use crate::acl::MissingPermissions;
use crate::connection::keys::WakeKeys;
use crate::connection::{Node, connect_error};
use crate::options::RedisOptions;

/// How long to wait for a share of a hint. After that the listener polls.
const TAKE_HINT_TIMEOUT: Duration = Duration::from_millis(500);

/// How many announcements may wait for the shares of their hints.
const MAX_WAITING_ANNOUNCEMENTS: usize = 1_024;

/// Transports wake-ups through a Redis or Valkey server, or a Cluster.
pub struct RedisTransport {
    state: Arc<TransportState>,
}

/// The state that the parts of the transport share.
pub(super) struct TransportState {
    pub(super) options: RedisOptions,
    pub(super) keys: WakeKeys,
    pub(super) commands: CommandConnection,
    pub(super) own_hints: OwnHints,
    pub(super) outage: OutageLog,
    /// Number of invalid messages.
    pub(super) ignored: AtomicU64,
}

impl RedisTransport {
    /// Connects. An unreachable server may become reachable later; one that denies access is an
    /// error.
    pub async fn connect(options: RedisOptions) -> Result<Self, Error> {
        let state = Arc::new(TransportState {
            keys: WakeKeys::new(options.namespace.clone(), options.database()),
            commands: CommandConnection::new(&options)?,
            outage: OutageLog::new(&options),
            own_hints: OwnHints::default(),
            ignored: AtomicU64::new(0),
            options,
        });
        match state.check().await {
            Err(error) if error.is_transient() => state.outage.record_failure(&error),
            reply => reply?,
        }
        Ok(Self { state })
    }

    /// How many invalid messages it has received.
    pub fn ignored(&self) -> u64 {
        self.state.ignored.load(Ordering::Relaxed)
    }

    /// Takes one share of a hint. Returns whether one was left.
    #[doc(hidden)]
    pub async fn take_hint(&self, hint: &Hint) -> bool {
        TakeHint::take_hint(&*self.state, hint).await
    }

    /// The prefix of its channels and hints.
    pub fn namespace(&self) -> &Namespace {
        &self.state.options.namespace
    }
}

impl TakeHint for TransportState {
    /// If the server does not answer in time, the claim polls.
    async fn take_hint(&self, hint: &Hint) -> bool {
        match timeout(TAKE_HINT_TIMEOUT, self.take_share(hint)).await {
            Ok(Ok(taken)) => taken,
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot take a share of a hint");
                true
            }
            Err(_) => true,
        }
    }
}

impl TransportState {
    async fn ping(&self) -> Result<(), Error> {
        let reply = self.commands.send(&redis::cmd("PING")).await;
        reply.map(drop).map_err(|error| connect_error(&self.options, error))
    }

    /// Checks whether the server responds, and whether the user has all permissions.
    async fn check(&self) -> Result<(), Error> {
        let reply = match self.ping().await {
            Ok(()) => self.missing_permissions().await.and_then(|permissions| permissions.check_all()),
            reply => reply,
        };
        reply.map_err(|error| match error {
            Error::Denied(reason) => {
                Error::Denied(format!("the Redis server of wake-ups (--wake): {reason}"))
            }
            other => other,
        })
    }

    async fn missing_permissions(&self) -> Result<MissingPermissions, Error> {
        let node = match &self.commands {
            CommandConnection::Server(node) => node.clone(),
            CommandConnection::Cluster(_) => Node::from_options(&self.options)?,
        };
        MissingPermissions::check_wake(&node, &self.options, self.keys.acl_sample()).await
    }
}

#[async_trait]
impl Transport for RedisTransport {
    async fn run(&self, bus: Arc<Bus>) {
        let (announcements, announced) = mpsc::channel(MAX_WAITING_ANNOUNCEMENTS);
        let publish = async {
            match bus.outgoing() {
                Some(outgoing) => publisher::run(&self.state, outgoing).await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(
            publish,
            subscriber::run(&self.state, &bus, announcements),
            announcement::run(&self.state, &bus, announced),
        );
    }

    async fn checkup(&self) -> Vec<Finding> {
        let (address, ignored) = (self.state.options.display_address(), self.ignored());
        let finding = match self.state.check().await {
            Ok(()) => {
                Finding::new(Severity::Good, "wake-ups", format!("through redis {address}, which answers"))
            }
            Err(Error::Denied(reason)) => Finding::new(Severity::Bad, "wake-ups", reason),
            Err(error) => {
                let advice = "work is found by looking alone until it is back";
                let finding = format!("redis {address} does not answer: {advice}: {}", error.full_message());
                Finding::new(Severity::Warning, "wake-ups", finding)
            }
        };
        let noise = (ignored > 0).then(|| {
            let finding = format!("{ignored} messages on its channels were no wake-ups");
            Finding::new(Severity::Warning, "wake-ups", finding)
        });
        std::iter::once(finding).chain(noise).collect()
    }
}

impl fmt::Debug for RedisTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisTransport").field(&self.state.options).finish()
    }
}
