//! Chains that are started once per key.
//!
//! A key lives in its own shard, which decides who gets it: it is reserved together with all that is needed to make
//! its chain. Whoever finds it reserved makes that chain, in whatever shard, before anything else. So there is one
//! chain however many callers there are, and wherever one of them dies.

use std::time::Duration;

use bytes::Bytes;
use redis::Pipeline;
use tidemill_core::chain::{Dedup, DedupScope};
use tidemill_core::store::{Cancelled, Enqueued, NewJob};
use tidemill_core::{Error, JobId, Queue, Timestamp};

use super::chain_state::Life;
use super::link::Batch;
use super::outbox::{Carried, Errand, GRACE_MS};
use super::reserved_chain as recipe;
use crate::connection::Call;
use crate::connection::reply::{array, bytes, text};
use crate::connection::script::Script;
use crate::error::{classify, odd_answer};
use crate::store::RedisStore;

/// How often to look at a key that changes hands, and for how long each time if its chain cannot be made yet.
const LOOKS: usize = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// A key that is reserved for a chain.
#[derive(Clone)]
pub(super) struct Reserved {
    /// Its value.
    value: String,
    /// Names the receipt of the chain: whoever was slow must not make it again when it is gone.
    pub(super) receipt: String,
}

/// What came of reserving a key.
enum Reserving {
    Done(Reserved),
    /// It has been reserved for the same chain before, which is made by now.
    Exists,
    /// This chain has it, and takes the place of the new one.
    Other(JobId),
}

/// What a key's value says: `? STARTED CHAIN` while its chain is to be made, then `= STARTED CHAIN`.
struct Holder {
    is_made: bool,
    started: i64,
    chain: JobId,
}

impl Holder {
    fn read(value: &str) -> Option<Self> {
        let mut parts = value.splitn(3, ' ');
        let is_made = parts.next()? == "=";
        let started = parts.next()?.parse().ok()?;
        Some(Self { is_made, started, chain: JobId::new(parts.next()?).ok()? })
    }
}

impl RedisStore {
    /// Reserves the keys of jobs that have one and no answer yet. A key that another chain has is an answer.
    pub(super) async fn reserve_keys(&self, batch: &mut Batch<'_>) -> Result<(), Error> {
        for (index, job) in batch.jobs.iter().enumerate() {
            let (Some(dedup), None) = (&job.links.dedup, &batch.answers[index]) else { continue };
            let same = |other: &NewJob| other.links.dedup.as_ref().is_some_and(|d| d.key == dedup.key);
            let twin = (0..index).find(|&other| batch.reserved[other].is_some() && same(&batch.jobs[other]));
            if let Some(twin) = twin {
                // Its chain is yet to be made, by this very call.
                batch.answers[index] = Some(Enqueued::Duplicate(batch.jobs[twin].id.chain()));
                continue;
            }
            match self.reserve_key(batch.queue, job, (dedup, &batch.receipts[index])).await? {
                Reserving::Done(reserved) => batch.reserved[index] = Some(reserved),
                Reserving::Exists => batch.answers[index] = Some(Enqueued::Exists),
                Reserving::Other(chain) => batch.answers[index] = Some(Enqueued::Duplicate(chain)),
            }
        }
        Ok(())
    }

    /// Reserves a key, unless a chain has it that takes this one's place.
    async fn reserve_key(
        &self,
        queue: &Queue,
        job: &NewJob,
        (dedup, receipt): (&Dedup, &str),
    ) -> Result<Reserving, Error> {
        let mut replaced = String::new();
        for _ in 0..LOOKS {
            let (now, found) = match self.try_reserve(queue, job, (&dedup.key, receipt, &replaced)).await? {
                Ok(reserved) => return Ok(Reserving::Done(reserved)),
                Err(found) => found,
            };
            // A value that was to be replaced is gone: nobody has the key any more.
            let Some(holder) = Holder::read(&found) else {
                if !found.is_empty() {
                    return Err(self.damaged_key(&dedup.key));
                }
                replaced.clear();
                continue;
            };
            if !holder.is_made {
                self.make_for_another(&dedup.key).await?;
                continue;
            }
            let life = self.lives(&[&holder.chain]).await?[0];
            if holder.chain == job.id.chain() && life != Life::Gone {
                return Ok(Reserving::Exists);
            }
            if life == Life::Open && self.is_lost(&holder.chain).await? {
                continue;
            }
            if counts(dedup, &holder, now, life) {
                return Ok(Reserving::Other(holder.chain));
            }
            replaced = found;
        }
        let message = format!("the deduplication key {:?} keeps changing hands", dedup.key);
        Err(Error::Unavailable { message, source: None })
    }

    /// Reserves a key if its value is the one to be replaced, or there is none; else says what it is.
    async fn try_reserve(
        &self,
        queue: &Queue,
        job: &NewJob,
        (key, receipt, replaced): (&str, &str, &str),
    ) -> Result<Result<Reserved, (Timestamp, String)>, Error> {
        let (shard, odd) = (self.keys.shard_of_key(key), || odd_answer("reserve"));
        let keys = self.keys_of_key(shard, key);
        let call = Call::new(&self.scripts.reserve_key, &keys)
            .arg(key)
            .arg(job.id.chain().as_str())
            .arg(recipe::write(queue, job, receipt))
            .arg(replaced)
            .arg(GRACE_MS);
        let mut parts = array(self.link.call(shard, call).await?).ok_or_else(odd)?.into_iter().map(text);
        let now = parts.next().flatten().and_then(|now| now.parse().ok()).ok_or_else(odd)?;
        let value = parts.next().flatten().ok_or_else(odd)?;
        if parts.next().is_none() {
            return Ok(Err((Timestamp(now), value)));
        }
        // Replicas are waited for when the chain is made: without it the key alone is of no use.
        Ok(Ok(Reserved { value, receipt: receipt.to_owned() }))
    }

    /// Makes the chain for which a key is reserved, on behalf of whoever reserved it. If it cannot be made yet, what it
    /// waits for may be yet to be made by the same one; if it cannot be made at all, the key comes back soon.
    async fn make_for_another(&self, key: &str) -> Result<(), Error> {
        match self.make(key).await {
            Err(Error::NotFound(_) | Error::Invalid(_)) => {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
            made => made.map(drop),
        }
    }

    /// Carries on for somebody who died after reserving a key. A chain that cannot be made any more gives it back.
    pub(super) async fn make_reserved(&self, shard: u16, key: &str) -> Result<Carried, Error> {
        match self.make(key).await {
            Err(Error::NotFound(_) | Error::Invalid(_)) => {
                if let Some((holder, _)) = self.reservation(key).await? {
                    self.unkey(0, &holder.chain, key).await?;
                }
            }
            made => drop(made?),
        }
        self.forget_errand(shard, &Errand::Make { key: key.to_owned() }).await?;
        Ok(Carried::Yes)
    }

    async fn make(&self, key: &str) -> Result<(), Error> {
        let Some((holder, recipe)) = self.reservation(key).await? else { return Ok(()) };
        let damaged =
            || Error::Invalid(format!("the reservation of the deduplication key {key:?} is damaged"));
        let (queue, job, receipt) = recipe::read(&holder.chain, key, recipe).ok_or_else(damaged)?;
        let shard = self.keys.shard_of(&job.id);
        let reserved = Reserved { value: format!("? {} {}", holder.started, holder.chain), receipt };
        let begun = self.begin_one(&queue, job, reserved.clone()).await?;
        self.assign(key, &reserved.value).await?;
        self.carry_on(shard, begun.errands).await;
        Ok(())
    }

    /// For whom a key is reserved, if it is, and what the chain is made of.
    async fn reservation(&self, key: &str) -> Result<Option<(Holder, Bytes)>, Error> {
        let shard = self.keys.shard_of_key(key);
        let mut batch = Pipeline::new();
        // As one step, so that the two belong together.
        batch.atomic();
        batch.cmd("GET").arg(self.keys.key(shard, key));
        batch.cmd("HGET").arg(self.keys.reserved(shard)).arg(key);
        let answer = self.link.pipeline(shard, &batch).await;
        let mut answer = answer.map_err(|error| classify("a reservation", error))?.into_iter();
        let holder = answer.next().and_then(text).and_then(|value| Holder::read(&value));
        let recipe = answer.next().and_then(bytes);
        Ok(holder.filter(|holder| !holder.is_made).zip(recipe))
    }

    /// Gives reserved keys to the chains that have been made. One that another chain got meanwhile takes the new
    /// chain's place after all.
    pub(super) async fn assign_keys(&self, batch: &mut Batch<'_>) -> Result<(), Error> {
        for (index, (job, reserved)) in batch.jobs.iter().zip(&batch.reserved).enumerate() {
            let (Some(dedup), Some(reserved)) = (&job.links.dedup, reserved) else { continue };
            let holder = self.assign(&dedup.key, &reserved.value).await?;
            if let Some(other) = holder.filter(|holder| holder.chain != job.id.chain())
                && self.cancel_job(&job.id).await? == Cancelled::Removed
            {
                batch.answers[index] = Some(Enqueued::Duplicate(other.chain));
            }
        }
        Ok(())
    }

    /// Gives a key to its chain, and says whose it is now.
    async fn assign(&self, key: &str, value: &str) -> Result<Option<Holder>, Error> {
        let answer = self.call_on_key(&self.scripts.assign_key, key, &[value]).await?;
        Ok(answer.and_then(|value| Holder::read(&value)))
    }

    /// Gives back keys that were reserved for chains that are not made after all.
    pub(super) async fn give_keys_back(&self, batch: &Batch<'_>) {
        for (job, reserved) in batch.jobs.iter().zip(&batch.reserved) {
            let (Some(dedup), Some(_)) = (&job.links.dedup, reserved) else { continue };
            if let Err(error) = self.give_back(&job.id, &dedup.key).await {
                tracing::warn!(key = dedup.key, error = error.full_message(), "cannot give a key back");
            }
        }
    }

    async fn give_back(&self, job: &JobId, key: &str) -> Result<(), Error> {
        // Somebody else may have made it meanwhile; then the key is rightly its own.
        if self.lives(&[job]).await? == [Life::Gone] {
            self.unkey(0, &job.chain(), key).await?;
        }
        Ok(())
    }

    /// Ends the life of a key with that of its chain.
    pub(super) async fn unkey(&self, at: u64, chain: &JobId, key: &str) -> Result<(), Error> {
        let at = at.min(Timestamp::MAX.0.unsigned_abs());
        self.call_on_key(&self.scripts.expire_key, key, &[chain.as_str(), &at.to_string()]).await.map(drop)
    }

    async fn call_on_key(&self, script: &Script, key: &str, args: &[&str]) -> Result<Option<String>, Error> {
        let shard = self.keys.shard_of_key(key);
        let keys = self.keys_of_key(shard, key);
        Ok(text(self.link.call(shard, Call::new(script, &keys).arg(key).arg(args)).await?))
    }

    /// What to say of a key whose value another program has written.
    fn damaged_key(&self, key: &str) -> Error {
        let name = self.keys.key(self.keys.shard_of_key(key), key);
        Error::Unsuitable(format!("reserve: `{name}` holds something else than a chain"))
    }

    fn keys_of_key(&self, shard: u16, key: &str) -> [String; 3] {
        [self.keys.key(shard, key), self.keys.reserved(shard), self.keys.errands(shard)]
    }
}

/// Whether the chain that has a key takes the place of a new one.
fn counts(dedup: &Dedup, holder: &Holder, now: Timestamp, life: Life) -> bool {
    let lives = match dedup.scope {
        DedupScope::Open => life == Life::Open,
        DedupScope::Any => life != Life::Gone,
    };
    let age = Timestamp(holder.started).until(now);
    lives && dedup.within.is_none_or(|window| age < window)
}
