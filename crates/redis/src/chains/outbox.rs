//! Errands: what a script leaves to be done in another step, mostly in another shard.

use std::fmt;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use redis::Value;
use tidemill_core::workflow::RunId;
use tidemill_core::{Error, Guarantee, JobId, Queue, QueueName};

use crate::connection::keys::letter;
use crate::connection::reply::text;
use crate::store::RedisStore;

/// How long whoever makes an errand has for it, in ms, before others carry it on. The same is in `lua/close.lua`.
pub(crate) const GRACE_MS: u64 = 2_000;

/// How many errands are under way at once: enough to fill the trips, few enough to leave room for others.
const AT_ONCE: usize = 16;

/// Something that is still to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Errand {
    /// A blocked job is to be registered with chains it waits for.
    Register {
        /// Which wait.
        mark: String,
    },
    /// A chain has closed: those that wait for it are to be told.
    Tell(JobId),
    /// A chain has closed: its key is to expire.
    Unkey {
        /// When, in ms; 0 at once.
        at: u64,
        /// Which chain.
        chain: JobId,
        /// Which key.
        key: String,
    },
    /// A key is reserved for a chain that is to be made.
    Make {
        /// Which key.
        key: String,
    },
    /// A run has effects that are pending.
    Apply(RunId),
    /// A purge has begun: what it is to delete is still there.
    Purge {
        /// Of which queue.
        queue: Queue,
        /// The last entry of the stream that it deletes.
        last: String,
    },
}

/// What came of an errand.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// It is done.
    Yes,
    /// A job that was being made was to wait for this chain, which is gone: the job is not made.
    Vanished(JobId),
}

impl Errand {
    fn read(text: &str) -> Option<Self> {
        let (letter, rest) = text.split_once(' ')?;
        match letter {
            "w" => Some(Self::Register { mark: rest.to_owned() }),
            "c" => Some(Self::Tell(JobId::new(rest).ok()?)),
            "k" => Some(Self::Make { key: rest.to_owned() }),
            "e" => Some(Self::Apply(RunId::new(rest).ok()?)),
            "p" => {
                let mut parts = rest.splitn(3, ' ');
                let (letter, last, name) = (parts.next()?, parts.next()?, parts.next()?);
                let delivery = if letter == "s" { Guarantee::AtLeastOnce } else { Guarantee::AtMostOnce };
                let queue = Queue { name: QueueName::new(name).ok()?, guarantee: delivery };
                Some(Self::Purge { queue, last: last.to_owned() })
            }
            "u" => {
                let mut parts = rest.splitn(3, ' ');
                let at = parts.next()?.parse().ok()?;
                let chain = JobId::new(parts.next()?).ok()?;
                Some(Self::Unkey { at, chain, key: parts.next()?.to_owned() })
            }
            _ => None,
        }
    }

    /// The errands in a script's answer. What is none is left out: it would never be done.
    pub(crate) fn all(parts: impl IntoIterator<Item = Value>) -> Vec<Self> {
        parts.into_iter().filter_map(text).filter_map(|text| Self::read(&text)).collect()
    }
}

impl fmt::Display for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register { mark } => write!(f, "w {mark}"),
            Self::Tell(chain) => write!(f, "c {chain}"),
            Self::Unkey { at, chain, key } => write!(f, "u {at} {chain} {key}"),
            Self::Make { key } => write!(f, "k {key}"),
            Self::Apply(run) => write!(f, "e {run}"),
            Self::Purge { queue, last } => write!(f, "p {} {last} {}", letter(queue), queue.name),
        }
    }
}

impl RedisStore {
    /// Does what a script of `shard` has left to be done. What fails is not lost: the errand stays, and whoever
    /// promotes next carries it on.
    pub(crate) async fn carry_on(&self, shard: u16, errands: Vec<Errand>) {
        for (errand, carried) in self.carry_all(shard, errands).await {
            if let Err(error) = carried {
                tracing::warn!(%errand, error = error.full_message(), "an errand is left to others");
            }
        }
    }

    /// Does errands, and says what came of each.
    pub(super) async fn carry_all(
        &self,
        shard: u16,
        errands: Vec<Errand>,
    ) -> Vec<(Errand, Result<Carried, Error>)> {
        let run = |errand: Errand| async move {
            let carried = self.carry(shard, &errand).await;
            (errand, carried)
        };
        stream::iter(errands).map(run).buffer_unordered(AT_ONCE).collect().await
    }

    /// Boxed, because an errand may bring about others.
    fn carry<'a>(&'a self, shard: u16, errand: &'a Errand) -> BoxFuture<'a, Result<Carried, Error>> {
        async move {
            match errand {
                Errand::Register { mark } => self.register_wait(shard, mark).await,
                Errand::Tell(chain) => self.tell_waiters(shard, chain).await.map(|()| Carried::Yes),
                Errand::Make { key } => self.make_reserved(shard, key).await,
                Errand::Apply(run) => self.apply_effects(shard, run).await.map(|()| Carried::Yes),
                Errand::Purge { queue, last } => {
                    self.complete_purge(shard, queue, last).await.map(|_| Carried::Yes)
                }
                Errand::Unkey { at, chain, key } => {
                    self.unkey(*at, chain, key).await?;
                    self.forget_errand(shard, errand).await.map(|()| Carried::Yes)
                }
            }
        }
        .boxed()
    }

    /// Strikes off an errand that is done.
    pub(crate) async fn forget_errand(&self, shard: u16, errand: &Errand) -> Result<(), Error> {
        let remove = redis::cmd("ZREM").arg(self.keys.errands(shard)).arg(errand.to_string()).take();
        self.link.query::<i64>(shard, &remove).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errands_read_back_as_they_are_written() {
        let (chain, key) = (JobId::new("c").unwrap(), "a key with spaces".to_owned());
        let errands = [
            Errand::Register { mark: "0f".into() },
            Errand::Tell(chain.clone()),
            Errand::Unkey { at: 17, chain, key: key.clone() },
            Errand::Make { key },
            Errand::Apply(RunId::new("r").unwrap()),
            Errand::Purge { queue: Queue::at_least_once(QueueName::new("q").unwrap()), last: "1-2".into() },
        ];
        for errand in errands {
            assert_eq!(Errand::read(&errand.to_string()), Some(errand));
        }
        assert_eq!(Errand::read("x y"), None);
    }
}
