//! Wake-ups through Redis, for stores that are elsewhere: the protocol of `@queuert/redis`, hints included.
//!
//! Two connections: one for commands, one for subscriptions, each opened when it is first needed. Redis holds
//! no state here that anybody relies on; while it is away, work is found by looking.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidemill_core::store::{Finding, Severity};
use tidemill_core::wake::Wake;
use tidemill_core::wake::{Hint, MessageStream, Pending, SendTiming, Subject, Transport};
use tidemill_core::{Error, Namespace};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::command_connection::Commands;
use super::outage_log::Outage;
use super::own_hints::OwnHints;
use super::subscriptions::{self, Board};
use super::{publisher, subscriber};
use crate::acl::Rights;
use crate::connection::keys::WakeKeys;
use crate::connection::{Node, unreachable};
use crate::options::Options;

/// How long whoever makes work waits for the others to be told of it. A hint is not worth more.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long to wait for a share of a hint. In doubt it is better to look.
const SHARE: Duration = Duration::from_millis(500);

/// Carries wake-ups through a Redis or Valkey server, or a Cluster.
pub struct RedisCourier {
    office: Arc<Office>,
    /// The carrier and the subscriber. They end with the courier.
    _tasks: JoinSet<()>,
}

/// What the parts of the courier share.
pub(super) struct Office {
    pub(super) options: Options,
    pub(super) keys: WakeKeys,
    pub(super) commands: Commands,
    pub(super) satchel: Pending,
    pub(super) board: Board,
    pub(super) own: OwnHints,
    pub(super) outage: Outage,
    /// Messages that said nothing.
    pub(super) ignored: AtomicU64,
}

impl RedisCourier {
    /// Gets ready to carry. A server that is away now may come later; one that refuses us will not let us in
    /// later either.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let office = Arc::new(Office {
            keys: WakeKeys::new(options.namespace.clone(), options.database()),
            commands: Commands::new(&options)?,
            outage: Outage::of(&options),
            satchel: Pending::default(),
            board: Board::default(),
            own: OwnHints::default(),
            ignored: AtomicU64::new(0),
            options,
        });
        match office.check().await {
            Err(error) if error.is_transient() => office.outage.begins(&error),
            answer => answer?,
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(publisher::run(office.clone()));
        tasks.spawn(subscriber::run(office.clone()));
        Ok(Self { office, _tasks: tasks })
    }

    /// How many messages it has heard that said nothing it knows.
    pub fn ignored(&self) -> u64 {
        self.office.ignored.load(Ordering::Relaxed)
    }

    /// The prefix of its channels and hints.
    pub fn namespace(&self) -> &Namespace {
        &self.office.options.namespace
    }
}

impl Office {
    async fn ping(&self) -> Result<(), Error> {
        let answer = self.commands.send(&redis::cmd("PING")).await;
        answer.map(drop).map_err(|error| unreachable(&self.options, error))
    }

    /// Asks whether the server answers, and whether its user may do what is needed.
    async fn check(&self) -> Result<(), Error> {
        let answer = match self.ping().await {
            Ok(()) => self.rights().await.and_then(|rights| rights.check_all()),
            answer => answer,
        };
        answer.map_err(|error| match error {
            Error::Denied(reason) => {
                Error::Denied(format!("the Redis server of wake-ups (--wake): {reason}"))
            }
            other => other,
        })
    }

    async fn rights(&self) -> Result<Rights, Error> {
        let node = match &self.commands {
            Commands::Server(node) => node.clone(),
            Commands::Cluster(_) => Node::of(&self.options)?,
        };
        Rights::of_wake_ups(&node, &self.options, self.keys.sample()).await
    }
}

#[async_trait]
impl Transport for RedisCourier {
    fn publish(&self, wake: Wake) -> SendTiming {
        self.office.satchel.add(wake)
    }

    async fn flush(&self) {
        let _ = timeout(PATIENCE, self.office.satchel.flushed()).await;
    }

    fn subscribe(&self, topic: Subject) -> MessageStream {
        subscriptions::listen(&self.office, topic)
    }

    async fn take_hint(&self, hint: &Hint) -> bool {
        match timeout(SHARE, self.office.take(hint)).await {
            Ok(Ok(taken)) => taken,
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot ask for a share of a hint");
                true
            }
            Err(_) => true,
        }
    }

    async fn checkup(&self) -> Vec<Finding> {
        let (place, ignored) = (self.office.options.place(), self.ignored());
        let found = match self.office.check().await {
            Ok(()) => {
                Finding::new(Severity::Good, "wake-ups", format!("through redis {place}, which answers"))
            }
            Err(Error::Denied(reason)) => Finding::new(Severity::Bad, "wake-ups", reason),
            Err(error) => {
                let advice = "work is found by looking alone until it is back";
                let found = format!("redis {place} does not answer: {advice}: {}", error.full_message());
                Finding::new(Severity::Warning, "wake-ups", found)
            }
        };
        let noise = (ignored > 0).then(|| {
            let found = format!("{ignored} messages on its channels were no wake-ups");
            Finding::new(Severity::Warning, "wake-ups", found)
        });
        std::iter::once(found).chain(noise).collect()
    }
}

impl fmt::Debug for RedisCourier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisCourier").field(&self.office.options).finish()
    }
}
