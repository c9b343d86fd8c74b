//! What a job waits for.

use bytes::Bytes;
use rusqlite::params;
use tidemill_core::chain::{Blocker, with_blockers};
use tidemill_core::name::JobId;
use tidemill_core::{Envelope, Error};

use crate::call::Tx;
use crate::error::Failure;
use crate::inspect::find_record;
use crate::jobs::find;
use crate::row;

/// The chains a job is to wait for, in its order, as they are now.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    blocks: Vec<Block>,
}

/// One of them.
#[derive(Debug)]
enum Block {
    /// Open, with this number.
    Open(i64),
    /// Closed, and this is what it tells.
    Closed(Bytes),
}

impl Blocks {
    /// Looks at the chains named in `after`. Each must be there, and have a result to tell when it closes.
    pub(crate) fn look_up(tx: &Tx<'_>, after: &[JobId]) -> Result<Self, Failure> {
        Ok(Self { blocks: after.iter().map(|chain| look_at(tx, chain)).collect::<Result<_, _>>()? })
    }

    /// The same for the next step of the chain of `job`: a chain it cannot wait for counts as removed.
    pub(crate) fn look_up_for(tx: &Tx<'_>, after: &[JobId], job: &JobId) -> Result<Self, Failure> {
        let look = |chain: &JobId| {
            let found = if *chain == job.chain() { Ok(None) } else { find_block(tx, chain) };
            let removed = || Block::Closed(Blocker::removed_notice(chain));
            Ok(found?.and_then(Result::ok).unwrap_or_else(removed))
        };
        Ok(Self { blocks: after.iter().map(look).collect::<Result<_, Failure>>()? })
    }

    /// Whether any is still open.
    pub(crate) fn are_open(&self) -> bool {
        self.open() > 0
    }

    fn open(&self) -> usize {
        self.blocks.iter().filter(|block| matches!(block, Block::Open(_))).count()
    }

    /// The envelope of a job that waits for these: with what they tell, if all have told it.
    pub(crate) fn tell(&self, envelope: &Bytes) -> Bytes {
        if self.blocks.is_empty() || self.are_open() {
            return envelope.clone();
        }
        let told = self.blocks.iter().filter_map(|block| match block {
            Block::Closed(told) => Some(&told[..]),
            Block::Open(_) => None,
        });
        with_blockers(envelope, told)
    }

    /// Makes the job with the number `waiter` wait for them, in the queue with this number.
    pub(crate) fn register(&self, tx: &Tx<'_>, waiter: i64, line: i64) -> Result<(), Failure> {
        let mut block = tx.connection.prepare_cached(include_str!("../../sql/chains/block.sql"))?;
        block.execute(params![waiter, line, self.open() as i64])?;
        let mut wait = tx.connection.prepare_cached(include_str!("../../sql/chains/await.sql"))?;
        for (position, block) in self.blocks.iter().enumerate() {
            let (blocker, told) = match block {
                Block::Open(seq) => (Some(*seq), None),
                Block::Closed(told) => (None, Some(&told[..])),
            };
            wait.execute(params![waiter, position as i64, blocker, told])?;
        }
        Ok(())
    }
}

fn look_at(tx: &Tx<'_>, chain: &JobId) -> Result<Block, Failure> {
    let gone = || Error::NotFound(format!("chain {}", chain.chain()));
    let unkept =
        |Unkept| Error::Invalid(format!("nothing can wait for chain {chain}: its result is not kept"));
    Ok(find_block(tx, chain)?.ok_or_else(gone)?.map_err(unkept)?)
}

/// The chain has no result to tell when it closes.
struct Unkept;

/// A chain as it is now, if it is there.
fn find_block(tx: &Tx<'_>, chain: &JobId) -> Result<Option<Result<Block, Unkept>>, Failure> {
    if let Some(found) = find(tx, chain)?.filter(|found| !found.is_forgotten(tx.now)) {
        let keeps = Envelope::read(found.body).is_ok_and(|envelope| envelope.keep_result().is_some());
        return Ok(Some(if keeps { Ok(Block::Open(found.seq)) } else { Err(Unkept) }));
    }
    let record = find_record(tx, chain)?;
    Ok(record.map(|record| Ok(Block::Closed(Blocker::notice(&record)))))
}

/// A blocked job waits for nothing any more, and is not blocked.
pub(crate) fn stop_waiting(tx: &Tx<'_>, waiter: i64) -> Result<(), Failure> {
    tx.connection.prepare_cached(include_str!("../../sql/chains/stop_waiting.sql"))?.execute([waiter])?;
    tx.connection.prepare_cached(include_str!("../../sql/chains/unblock.sql"))?.execute([waiter])?;
    Ok(())
}

/// The open chains a job waits for, a bounded number.
pub(crate) fn waits_for(tx: &Tx<'_>, waiter: i64) -> Result<Vec<JobId>, Failure> {
    let mut list = tx.connection.prepare_cached(include_str!("../../sql/chains/waits_for.sql"))?;
    let mut rows = list.query([waiter])?;
    let mut chains = Vec::new();
    while let Some(row) = rows.next()? {
        chains.push(row::job_id(row, 0, row.get(1)?)?);
    }
    Ok(chains)
}
