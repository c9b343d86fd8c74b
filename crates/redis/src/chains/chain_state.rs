//! Looking at chains that a new job is to wait for, before anything is written.

use std::collections::HashMap;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::{Pipeline, Value};
use tidemill_core::chain::Blocker;
use tidemill_core::{Envelope, Error, JobId};

use super::blocked_job::{number, told};
use crate::connection::reply::bytes;
use crate::error::classify;
use crate::jobs::locate::Place;
use crate::jobs::{TRIES, keeps_moving};
use crate::store::RedisStore;

/// How many chains are looked at in one go.
const AT_ONCE: usize = 32;

/// What can be said of a chain to someone who wants to wait for it.
pub(super) enum Standing {
    /// It can be waited for.
    Open,
    /// It has closed, and tells this.
    Closed(Bytes),
}

/// Whether a chain goes on, has a record, or neither.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    Kept,
    Gone,
}

impl RedisStore {
    /// What can be said of each chain. One that is not there, or whose end nobody will know, is an error.
    pub(super) async fn standings(&self, chains: Vec<JobId>) -> Result<HashMap<JobId, Standing>, Error> {
        let look = |chain: JobId| async move {
            let standing = self.standing(&chain).await?;
            Ok::<_, Error>((chain, standing))
        };
        stream::iter(chains).map(look).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// What can be said of the chains that the next step of `own` is to wait for. The work is done, and its end must
    /// not fail for them: one that cannot be waited for counts as removed.
    pub(super) async fn standings_or_removed(
        &self,
        own: &JobId,
        chains: &[JobId],
    ) -> Result<HashMap<JobId, Standing>, Error> {
        let look = |chain: JobId| async move {
            let removed = || Standing::Closed(Blocker::removed_notice(&chain));
            let standing = match self.standing(&chain).await {
                Ok(_) if chain == own.chain() => removed(),
                Err(Error::NotFound(_) | Error::Invalid(_)) => removed(),
                standing => standing?,
            };
            Ok::<_, Error>((chain, standing))
        };
        let chains = chains.iter().map(JobId::chain);
        stream::iter(chains).map(look).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn standing(&self, chain: &JobId) -> Result<Standing, Error> {
        let shard = self.keys.shard_of(chain);
        // In this order: a chain that leaves the index has its notice and its record by then.
        let mut batch = Pipeline::new();
        batch.cmd("HGET").arg(self.keys.jobs(shard)).arg(chain.as_str());
        batch.cmd("HGET").arg(self.keys.notices(shard)).arg(chain.as_str());
        batch.cmd("GET").arg(self.keys.record(shard, chain));
        for _ in 0..TRIES {
            let answer = self.link.pipeline(shard, &batch).await;
            let answer = answer.map_err(|error| classify("looking at a chain", error))?;
            let [indexed, notice, kept] = <[Value; 3]>::try_from(answer)
                .map(|values| values.map(bytes))
                .map_err(|_| crate::error::odd_answer("HGET"))?;
            if let Some(notice) = notice {
                return Ok(Standing::Closed(told(chain, &notice)));
            }
            let Some(indexed) = indexed else { return self.closed_standing(chain, kept).await };
            let Some(place) = Place::read(shard, indexed) else { break };
            if let Some(data) = self.data_at(chain, &place).await? {
                return if keeps_result(&data) { Ok(Standing::Open) } else { Err(unkept(chain)) };
            }
            self.missed(chain, &place).await?;
        }
        Err(keeps_moving(chain))
    }

    async fn closed_standing(&self, chain: &JobId, kept: Option<Bytes>) -> Result<Standing, Error> {
        match kept {
            Some(kept) => Ok(Standing::Closed(told(chain, &kept))),
            // It may be one that has no index entry, which keeps no result either.
            None if self.locate(chain).await?.is_some() => Err(unkept(chain)),
            None => Err(missing(chain)),
        }
    }

    /// How it stands with each of these chains, in their order.
    pub(super) async fn lives(&self, chains: &[&JobId]) -> Result<Vec<Life>, Error> {
        let mut lives = vec![Life::Gone; chains.len()];
        for shard in 0..self.keys.shards() {
            let here: Vec<usize> =
                (0..chains.len()).filter(|&index| self.keys.shard_of(chains[index]) == shard).collect();
            if here.is_empty() {
                continue;
            }
            let mut batch = Pipeline::new();
            for &index in &here {
                batch.cmd("HEXISTS").arg(self.keys.jobs(shard)).arg(chains[index].chain().as_str());
                batch.cmd("EXISTS").arg(self.keys.record(shard, chains[index]));
            }
            let answer = self.link.pipeline(shard, &batch).await;
            let answer = answer.map_err(|error| classify("looking at chains", error))?;
            for (&index, pair) in here.iter().zip(answer.chunks_exact(2)) {
                lives[index] = match (number(&pair[0]), number(&pair[1])) {
                    (1, _) => Life::Open,
                    (_, 1) => Life::Kept,
                    _ => Life::Gone,
                };
            }
        }
        Ok(lives)
    }
}

/// Whether an envelope or letter says that the result is kept. One that is too deep in a list to be seen may.
pub(super) fn keeps_result(data: &Bytes) -> bool {
    data.is_empty() || Envelope::read(data.clone()).is_ok_and(|envelope| envelope.keep_result().is_some())
}

pub(super) fn missing(chain: &JobId) -> Error {
    Error::NotFound(format!("chain {chain}"))
}

pub(super) fn unkept(chain: &JobId) -> Error {
    let why = "its result is not kept; enqueue it with `keep_result`";
    Error::Invalid(format!("nothing can wait for job {chain}: {why}"))
}
