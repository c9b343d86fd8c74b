//! Chains that are started once per deduplication key.
//!
//! The shard of the key decides who gets it: the key is reserved together with all data of its
//! chain. A caller that finds it reserved creates that chain, in any shard, before its own. So
//! there is one chain for any number of callers, even if some of them die.

use std::time::Duration;

use bytes::Bytes;
use redis::Pipeline;
use tidemill_core::chain::{Dedup, DedupScope};
use tidemill_core::store::{Cancelled, Enqueued, NewJob};
use tidemill_core::{Error, JobId, Queue, Timestamp};

use super::chain_state::ChainState;
use super::link::LinkedBatch;
use super::outbox::{OUTBOX_GRACE_MS, OutboxEntry, OutboxResult};
use super::reserved_chain as stored_chain;
use crate::connection::ScriptCall;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, bytes, text};
use crate::connection::script::Script;
use crate::error::{classify, unexpected_reply};
use crate::store::RedisStore;

/// How often to try to reserve a key, and the delay while its chain cannot be created yet.
const MAX_RESERVE_ATTEMPTS: usize = 100;
const RESERVE_RETRY_DELAY: Duration = Duration::from_millis(20);

/// A key that is reserved for a chain.
#[derive(Clone)]
pub(super) struct ReservedKey {
    /// Its value.
    value: String,
    /// The name of the chain's receipt: a slow caller must not create the chain again.
    pub(super) receipt: String,
}

/// The result of reserving a key.
enum ReserveResult {
    Reserved(ReservedKey),
    /// It was reserved for the same chain before, which exists by now.
    Exists,
    /// Another chain has it; the new one is a duplicate.
    Duplicate(JobId),
}

/// The value of a key: `? STARTED CHAIN` while its chain is being created, then `= STARTED CHAIN`.
struct KeyHolder {
    is_created: bool,
    started: i64,
    chain: JobId,
}

impl KeyHolder {
    fn parse(value: &str) -> Option<Self> {
        let mut parts = value.splitn(3, ' ');
        let is_made = parts.next()? == "=";
        let started = parts.next()?.parse().ok()?;
        Some(Self { is_created: is_made, started, chain: JobId::new(parts.next()?).ok()? })
    }
}

impl RedisStore {
    /// Reserves the keys of jobs without a result. A key of another chain is a result.
    pub(super) async fn reserve_keys(&self, batch: &mut LinkedBatch<'_>) -> Result<(), Error> {
        for (index, job) in batch.jobs.iter().enumerate() {
            let (Some(dedup), None) = (&job.links.dedup, &batch.results[index]) else { continue };
            let same = |other: &NewJob| other.links.dedup.as_ref().is_some_and(|d| d.key == dedup.key);
            let twin = (0..index).find(|&other| batch.reserved[other].is_some() && same(&batch.jobs[other]));
            if let Some(twin) = twin {
                // This call is going to create its chain.
                batch.results[index] = Some(Enqueued::Duplicate(batch.jobs[twin].id.chain()));
                continue;
            }
            match self.reserve_key(batch.queue, job, (dedup, &batch.receipts[index])).await? {
                ReserveResult::Reserved(reserved) => batch.reserved[index] = Some(reserved),
                ReserveResult::Exists => batch.results[index] = Some(Enqueued::Exists),
                ReserveResult::Duplicate(chain) => batch.results[index] = Some(Enqueued::Duplicate(chain)),
            }
        }
        Ok(())
    }

    /// Reserves a key, unless another chain has it.
    async fn reserve_key(
        &self,
        queue: &Queue,
        job: &NewJob,
        (dedup, receipt): (&Dedup, &str),
    ) -> Result<ReserveResult, Error> {
        let mut replaced = String::new();
        for _ in 0..MAX_RESERVE_ATTEMPTS {
            let (now, found) = match self.try_reserve(queue, job, (&dedup.key, receipt, &replaced)).await? {
                Ok(reserved) => return Ok(ReserveResult::Reserved(reserved)),
                Err(found) => found,
            };
            // The value to replace is gone: the key is free.
            let Some(holder) = KeyHolder::parse(&found) else {
                if !found.is_empty() {
                    return Err(self.damaged_key_error(&dedup.key));
                }
                replaced.clear();
                continue;
            };
            if !holder.is_created {
                self.create_for_other(&dedup.key).await?;
                continue;
            }
            let state = self.chain_states(&[&holder.chain]).await?[0];
            if holder.chain == job.id.chain() && state != ChainState::Gone {
                return Ok(ReserveResult::Exists);
            }
            if state == ChainState::Open && self.forget_if_lost(&holder.chain).await? {
                continue;
            }
            if is_duplicate(dedup, &holder, now, state) {
                return Ok(ReserveResult::Duplicate(holder.chain));
            }
            replaced = found;
        }
        let message = format!("the deduplication key {:?} keeps changing its holder", dedup.key);
        Err(Error::Unavailable { message, source: None })
    }

    /// Reserves a key if it is free or has the value to replace; else returns its value.
    async fn try_reserve(
        &self,
        queue: &Queue,
        job: &NewJob,
        (key, receipt, replaced): (&str, &str, &str),
    ) -> Result<Result<ReservedKey, (Timestamp, String)>, Error> {
        let (shard, unexpected) = (self.keys.shard_of_key(key), || unexpected_reply("reserve_key"));
        let keys = self.dedup_keys(shard, key);
        let args = NamedArgs::new()
            .with("key", key)
            .with("chain", job.id.chain().as_str())
            .with("stored_chain", &stored_chain::write(queue, job, receipt)[..])
            .with("replaced", replaced)
            .with("grace", OUTBOX_GRACE_MS);
        let call = ScriptCall::named(&self.scripts.reserve_key, &keys, &args);
        let mut parts =
            array(self.connections.call(shard, call).await?).ok_or_else(unexpected)?.into_iter().map(text);
        let now = parts.next().flatten().and_then(|now| now.parse().ok()).ok_or_else(unexpected)?;
        let value = parts.next().flatten().ok_or_else(unexpected)?;
        if parts.next().is_none() {
            return Ok(Err((Timestamp(now), value)));
        }
        // Replicas confirm the creation of the chain; the key alone is useless.
        Ok(Ok(ReservedKey { value, receipt: receipt.to_owned() }))
    }

    /// Creates the chain for which another caller reserved a key. If it fails, its blockers may not
    /// exist yet, or the reservation is about to be released.
    async fn create_for_other(&self, key: &str) -> Result<(), Error> {
        match self.create_from_reservation(key).await {
            Err(error) if error.is_invalid() || error.is_not_found() => {
                tokio::time::sleep(RESERVE_RETRY_DELAY).await;
                Ok(())
            }
            made => made.map(drop),
        }
    }

    /// Continues for a caller that died after reserving a key. Releases a key whose chain cannot be
    /// created.
    pub(super) async fn create_reserved(&self, shard: u16, key: &str) -> Result<OutboxResult, Error> {
        match self.create_from_reservation(key).await {
            Err(error) if error.is_invalid() || error.is_not_found() => {
                if let Some((holder, _)) = self.reservation(key).await? {
                    self.expire_key(0, &holder.chain, key).await?;
                }
            }
            made => drop(made?),
        }
        self.delete_outbox_entry(shard, &OutboxEntry::CreateReserved { key: key.to_owned() }).await?;
        Ok(OutboxResult::Done)
    }

    async fn create_from_reservation(&self, key: &str) -> Result<(), Error> {
        let Some((holder, stored_chain)) = self.reservation(key).await? else { return Ok(()) };
        let damaged =
            || Error::Invalid(format!("the reservation of the deduplication key {key:?} is damaged"));
        let (queue, job, receipt) =
            stored_chain::read(&holder.chain, key, stored_chain).ok_or_else(damaged)?;
        let shard = self.keys.shard_of(&job.id);
        let reserved = ReservedKey { value: format!("? {} {}", holder.started, holder.chain), receipt };
        let linked = self.link_reserved(&queue, job, reserved.clone()).await?;
        self.assign(key, &reserved.value).await?;
        self.process_outbox(shard, linked.outbox).await;
        Ok(())
    }

    /// The holder of a reserved key and the stored chain, if it is reserved.
    async fn reservation(&self, key: &str) -> Result<Option<(KeyHolder, Bytes)>, Error> {
        let shard = self.keys.shard_of_key(key);
        let mut batch = Pipeline::new();
        // Atomic, so that the two belong together.
        batch.atomic();
        batch.cmd("GET").arg(self.keys.dedup_key(shard, key));
        batch.cmd("HGET").arg(self.keys.reserved(shard)).arg(key);
        let reply = self.connections.pipeline(shard, &batch).await;
        let mut reply = reply.map_err(|error| classify("a reservation", error))?.into_iter();
        let holder = reply.next().and_then(text).and_then(|value| KeyHolder::parse(&value));
        let stored_chain = reply.next().and_then(bytes);
        Ok(holder.filter(|holder| !holder.is_created).zip(stored_chain))
    }

    /// Assigns reserved keys to their created chains. If another chain got the key meanwhile, the
    /// new one is a duplicate after all.
    pub(super) async fn assign_keys(&self, batch: &mut LinkedBatch<'_>) -> Result<(), Error> {
        for (index, (job, reserved)) in batch.jobs.iter().zip(&batch.reserved).enumerate() {
            let (Some(dedup), Some(reserved)) = (&job.links.dedup, reserved) else { continue };
            let holder = self.assign(&dedup.key, &reserved.value).await?;
            if let Some(other) = holder.filter(|holder| holder.chain != job.id.chain())
                && self.cancel_job(&job.id).await? == Cancelled::Removed
            {
                batch.results[index] = Some(Enqueued::Duplicate(other.chain));
            }
        }
        Ok(())
    }

    /// Assigns a key to its chain; returns its holder afterwards.
    async fn assign(&self, key: &str, value: &str) -> Result<Option<KeyHolder>, Error> {
        let args = NamedArgs::new().with("value", value);
        let reply = self.call_dedup_script(&self.scripts.assign_key, key, args).await?;
        Ok(reply.and_then(|value| KeyHolder::parse(&value)))
    }

    /// Releases keys that were reserved for chains that were not created.
    pub(super) async fn release_keys(&self, batch: &LinkedBatch<'_>) {
        for (job, reserved) in batch.jobs.iter().zip(&batch.reserved) {
            let (Some(dedup), Some(_)) = (&job.links.dedup, reserved) else { continue };
            if let Err(error) = self.release_key(&job.id, &dedup.key).await {
                tracing::warn!(
                    key = dedup.key,
                    error = error.full_message(),
                    "cannot release a deduplication key"
                );
            }
        }
    }

    async fn release_key(&self, job: &JobId, key: &str) -> Result<(), Error> {
        // Another caller may have created it meanwhile; then it owns the key.
        if self.chain_states(&[job]).await? == [ChainState::Gone] {
            self.expire_key(0, &job.chain(), key).await?;
        }
        Ok(())
    }

    /// Expires a key together with its chain.
    pub(super) async fn expire_key(&self, at: u64, chain: &JobId, key: &str) -> Result<(), Error> {
        // As text: the server reads times that Lua cannot keep.
        let at = (at > 0).then(|| at.min(Timestamp::MAX.0.unsigned_abs()).to_string());
        let args = NamedArgs::new().with("chain", chain.as_str()).with("at", at);
        self.call_dedup_script(&self.scripts.expire_key, key, args).await.map(drop)
    }

    async fn call_dedup_script(
        &self,
        script: &Script,
        key: &str,
        args: NamedArgs,
    ) -> Result<Option<String>, Error> {
        let shard = self.keys.shard_of_key(key);
        let keys = self.dedup_keys(shard, key);
        let call = ScriptCall::named(script, &keys, &args.with("key", key));
        Ok(text(self.connections.call(shard, call).await?))
    }

    /// The error for a key whose value another program has written.
    fn damaged_key_error(&self, key: &str) -> Error {
        let name = self.keys.dedup_key(self.keys.shard_of_key(key), key);
        Error::Unsuitable(format!("reserve_key: `{name}` holds something else than a chain"))
    }

    fn dedup_keys(&self, shard: u16, key: &str) -> [String; 3] {
        [self.keys.dedup_key(shard, key), self.keys.reserved(shard), self.keys.errands(shard)]
    }
}

/// Whether a new chain is a duplicate of the key's holder.
fn is_duplicate(dedup: &Dedup, holder: &KeyHolder, now: Timestamp, state: ChainState) -> bool {
    let lives = match dedup.scope {
        DedupScope::Open => state == ChainState::Open,
        DedupScope::Any => state != ChainState::Gone,
    };
    let age = Timestamp(holder.started).until(now);
    lives && dedup.within.is_none_or(|window| age < window)
}
