//! Registering a blocked job with the chains it waits for, in their shards.

use bytes::Bytes;
use futures_util::future::try_join_all;
use tidemill_core::chain::Blocker;
use tidemill_core::limits::MAX_BLOCKERS;
use tidemill_core::{Error, JobId};

use super::blocked_job::{Blocking, Informed, Note, Tiding, Wait, told, waiter};
use super::outbox::{Carried, Errand};
use crate::connection::Call;
use crate::connection::reply::{array, bytes};
use crate::error::odd_answer;
use crate::jobs::locate::Place;
use crate::store::RedisStore;

/// What a chain's shard says of it.
enum Found {
    /// It is open, and the job is registered.
    Open,
    /// It has closed, and tells this.
    Closed(Bytes),
    /// It is not there.
    Missing,
}

impl RedisStore {
    /// Registers a job wherever it is not registered yet, and tells it what has closed meanwhile.
    pub(super) async fn register_wait(&self, shard: u16, mark: &str) -> Result<Carried, Error> {
        let Some(wait) = self.waits(shard, &[mark], MAX_BLOCKERS).await?.pop().flatten() else {
            self.forget_errand(shard, &Errand::Register { mark: mark.to_owned() }).await?;
            return Ok(Carried::Yes);
        };
        let unknown: Vec<&Blocking> = wait.open.iter().filter(|blocking| !blocking.registered).collect();
        let found = self.register_all(mark, &wait, &unknown).await?;
        let missing = found.iter().find(|(_, found)| matches!(found, Found::Missing));
        if let Some((blocking, _)) = missing.filter(|_| wait.is_new) {
            self.withdraw((shard, mark), &wait, &unknown).await?;
            return Ok(Carried::Vanished(blocking.chain.clone()));
        }
        let mut tellings = Vec::new();
        let notes = found
            .into_iter()
            .map(|(blocking, found)| (blocking.position, note(blocking, found, &mut tellings)));
        let message = Tiding { job: wait.job.clone(), mark: mark.to_owned(), notes: notes.collect() };
        let informed = self.inform((shard, &wait.queue), &tellings, &[message]).await?;
        if informed.contains(&Informed::Gone) {
            self.unregister_again(mark, &wait, &unknown).await;
        }
        Ok(Carried::Yes)
    }

    async fn register_all<'a>(
        &self,
        mark: &str,
        wait: &Wait,
        unknown: &[&'a Blocking],
    ) -> Result<Vec<(&'a Blocking, Found)>, Error> {
        let in_shard = |shard: u16| {
            let here = unknown.iter().filter(|blocking| self.keys.shard_of(&blocking.chain) == shard);
            (shard, here.copied().collect::<Vec<_>>())
        };
        let parts = (0..self.keys.shards()).map(in_shard).filter(|(_, part)| !part.is_empty());
        let answers = parts.map(|(shard, part)| self.register_in(shard, mark, wait, part));
        Ok(try_join_all(answers).await?.into_iter().flatten().collect())
    }

    async fn register_in<'a>(
        &self,
        shard: u16,
        mark: &str,
        wait: &Wait,
        part: Vec<&'a Blocking>,
    ) -> Result<Vec<(&'a Blocking, Found)>, Error> {
        let mut keys = vec![self.keys.jobs(shard), self.keys.waiters(shard), self.keys.notices(shard)];
        keys.extend(part.iter().map(|blocking| self.keys.record(shard, &blocking.chain)));
        let mut call = Call::new(&self.scripts.register_wait, &keys);
        for blocking in &part {
            call.push(blocking.chain.as_str());
            call.push(waiter(&blocking.chain, mark, blocking.position, (&wait.queue, &wait.job)));
        }
        let odd = || odd_answer("register");
        let answers = array(self.link.call(shard, call).await?).ok_or_else(odd)?;
        let read = |(blocking, answer)| Some((blocking, found(blocking, &bytes(answer)?)?));
        part.into_iter().zip(answers).map(read).collect::<Option<_>>().ok_or_else(odd)
    }

    /// Unmakes a job whose making did not come to its end.
    async fn withdraw(
        &self,
        (shard, mark): (u16, &str),
        wait: &Wait,
        unknown: &[&Blocking],
    ) -> Result<(), Error> {
        let place = Place::blocked(shard, wait.queue.clone(), (&wait.job, mark));
        self.cancel_at(&wait.job, &place).await?;
        self.unregister_again(mark, wait, unknown).await;
        Ok(())
    }

    /// Takes back what was registered for a job that had left: whoever made it leave may have been earlier.
    async fn unregister_again(&self, mark: &str, wait: &Wait, unknown: &[&Blocking]) {
        let chains = unknown.iter().map(|blocking| (blocking.position, blocking.chain.clone()));
        self.unregister(mark, (&wait.queue, &wait.job), chains.collect::<Vec<_>>()).await;
    }
}

fn found(blocking: &Blocking, answer: &[u8]) -> Option<Found> {
    match answer {
        b"open" => Some(Found::Open),
        b"missing" => Some(Found::Missing),
        b"removed" => Some(Found::Closed(Blocker::removed_notice(&blocking.chain))),
        _ => Some(Found::Closed(told(&blocking.chain, answer.strip_prefix(b"kept")?))),
    }
}

/// A chain that is not there, when another has gone on to wait for it, counts as removed.
fn note(blocking: &Blocking, found: Found, tellings: &mut Vec<Bytes>) -> Note {
    let told = match found {
        Found::Open => return Note::Open,
        Found::Closed(told) => told,
        Found::Missing => Blocker::removed_notice(&blocking.chain),
    };
    tellings.push(told);
    Note::Told(tellings.len() - 1)
}

/// A name for one wait.
pub(super) fn new_mark() -> String {
    format!("{:016x}", fastrand::u64(..))
}

/// Whether chains of one job and another are in one shard, in the words of the scripts.
pub(super) fn how(store: &RedisStore, shard: u16, chain: &JobId) -> &'static str {
    if store.keys.shard_of(chain) == shard { "here" } else { "away" }
}
