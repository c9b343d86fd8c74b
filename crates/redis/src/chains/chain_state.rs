//! States of chains that a new job waits for, read before anything is written.

use std::collections::HashMap;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::{Pipeline, Value};
use tidemill_core::chain::Blocker;
use tidemill_core::{Envelope, Error, JobId};

use super::blocked_job::{int_or_zero, notice_from_record};
use crate::connection::reply::bytes;
use crate::error::classify;
use crate::jobs::locate::JobLocation;
use crate::jobs::{MAX_ATTEMPTS, keeps_moving_error};
use crate::store::RedisStore;

/// How many chains are read concurrently.
const MAX_CONCURRENT_LOOKUPS: usize = 32;

/// The state of a chain for a job that is to wait for it.
pub(super) enum BlockerState {
    /// The job can wait for it.
    Open,
    /// It has closed, with this notice.
    Closed(Bytes),
}

/// Whether a chain is open, has a record, or neither.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainState {
    Open,
    Kept,
    Gone,
}

impl RedisStore {
    /// The state of each chain. A missing chain, or one that keeps no result, is an error.
    pub(super) async fn blocker_states(
        &self,
        chains: Vec<JobId>,
    ) -> Result<HashMap<JobId, BlockerState>, Error> {
        let read_state = |chain: JobId| async move {
            let standing = self.blocker_state(&chain).await?;
            Ok::<_, Error>((chain, standing))
        };
        stream::iter(chains).map(read_state).buffer_unordered(MAX_CONCURRENT_LOOKUPS).try_collect().await
    }

    /// The states of the chains that the next step of `own` waits for. The step is done and must
    /// not fail because of them: a chain that cannot be waited for counts as removed.
    pub(super) async fn blocker_states_or_removed(
        &self,
        own: &JobId,
        chains: &[JobId],
    ) -> Result<HashMap<JobId, BlockerState>, Error> {
        let read_state = |chain: JobId| async move {
            let removed = || BlockerState::Closed(Blocker::removed_notice(&chain));
            let standing = match self.blocker_state(&chain).await {
                Ok(_) if chain == own.chain() => removed(),
                Err(error) if error.is_invalid() || error.is_not_found() => removed(),
                standing => standing?,
            };
            Ok::<_, Error>((chain, standing))
        };
        let chains = chains.iter().map(JobId::chain);
        stream::iter(chains).map(read_state).buffer_unordered(MAX_CONCURRENT_LOOKUPS).try_collect().await
    }

    async fn blocker_state(&self, chain: &JobId) -> Result<BlockerState, Error> {
        let shard = self.keys.shard_of(chain);
        // In this order: a chain that leaves the index has its notice and its record by then.
        let mut batch = Pipeline::new();
        batch.cmd("HGET").arg(self.keys.jobs(shard)).arg(chain.as_str());
        batch.cmd("HGET").arg(self.keys.notices(shard)).arg(chain.as_str());
        batch.cmd("GET").arg(self.keys.record(shard, chain));
        for _ in 0..MAX_ATTEMPTS {
            let reply = self.connections.pipeline(shard, &batch).await;
            let reply = reply.map_err(|error| classify("reading a chain", error))?;
            let [indexed, notice, record] = <[Value; 3]>::try_from(reply)
                .map(|values| values.map(bytes))
                .map_err(|_| crate::error::unexpected_reply("HGET"))?;
            if let Some(notice) = notice {
                return Ok(BlockerState::Closed(notice_from_record(chain, &notice)));
            }
            let Some(indexed) = indexed else { return self.closed_blocker_state(chain, record).await };
            let Some(location) = JobLocation::parse(shard, indexed) else { break };
            if let Some(data) = self.data_at(chain, &location).await? {
                return if keeps_result(&data) {
                    Ok(BlockerState::Open)
                } else {
                    Err(result_not_kept(chain))
                };
            }
            self.repair_if_lost(chain, &location).await?;
        }
        Err(keeps_moving_error(chain))
    }

    async fn closed_blocker_state(
        &self,
        chain: &JobId,
        record: Option<Bytes>,
    ) -> Result<BlockerState, Error> {
        match record {
            Some(record) => Ok(BlockerState::Closed(notice_from_record(chain, &record))),
            // It may have no index entry, and then keeps no result either.
            None if self.locate(chain).await?.is_some() => Err(result_not_kept(chain)),
            None => Err(chain_missing(chain)),
        }
    }

    /// The state of each chain, in order.
    pub(super) async fn chain_states(&self, chains: &[&JobId]) -> Result<Vec<ChainState>, Error> {
        let mut states = vec![ChainState::Gone; chains.len()];
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
            let reply = self.connections.pipeline(shard, &batch).await;
            let reply = reply.map_err(|error| classify("reading chains", error))?;
            for (&index, pair) in here.iter().zip(reply.chunks_exact(2)) {
                states[index] = match (int_or_zero(&pair[0]), int_or_zero(&pair[1])) {
                    (1, _) => ChainState::Open,
                    (_, 1) => ChainState::Kept,
                    _ => ChainState::Gone,
                };
            }
        }
        Ok(states)
    }
}

/// Whether an envelope or dead letter keeps its result. One that is too deep in a list to be read
/// may.
pub(super) fn keeps_result(data: &Bytes) -> bool {
    data.is_empty() || Envelope::read(data.clone()).is_ok_and(|envelope| envelope.keep_result().is_some())
}

pub(super) fn chain_missing(chain: &JobId) -> Error {
    Error::NotFound(format!("chain {chain}"))
}

pub(super) fn result_not_kept(chain: &JobId) -> Error {
    let why = "its result is not kept; enqueue it with `keep_result`";
    Error::Invalid(format!("nothing can wait for job {chain}: {why}"))
}
