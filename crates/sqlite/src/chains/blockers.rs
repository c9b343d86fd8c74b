//! The chains that a job waits for.

use bytes::Bytes;
use rusqlite::params;
use tidemill_core::chain::{Blocker, with_blockers};
use tidemill_core::name::JobId;
use tidemill_core::{Envelope, Error};

use crate::connection::Tx;
use crate::error::RequestError;
use crate::inspect::find_record;
use crate::jobs::find;
use crate::row;

/// Makes a job wait for this many open chains.
const INSERT_BLOCKED: &str = "INSERT INTO tidemill_blocked (seq, queue, open) VALUES (?1, ?2, ?3)";

/// Stores one of the chains that a job waits for: its number, or its notice. The transaction that
/// closes the chain needs the same write lock. So it has either stored its notice before this, or
/// will find this row.
const INSERT_BLOCKER: &str =
    "INSERT INTO tidemill_blocks (waiter, position, blocker, told) VALUES (?1, ?2, ?3, ?4)";

/// Deletes what a job waits for.
const DELETE_BLOCKERS: &str = "DELETE FROM tidemill_blocks WHERE waiter = ?1";

/// Deletes the blocked state of a job.
const DELETE_BLOCKED: &str = "DELETE FROM tidemill_blocked WHERE seq = ?1";

/// The open chains that a job waits for, a bounded number.
const LIST_OPEN_BLOCKERS: &str = "
    SELECT j.id, j.seq FROM tidemill_blocks b CROSS JOIN tidemill_jobs j ON j.seq = b.blocker
    WHERE b.waiter = ?1 ORDER BY b.position LIMIT 100";

/// The chains that a job is to wait for, in its order, with their current states.
#[derive(Debug, Default)]
pub(crate) struct ChainBlockers {
    blockers: Vec<BlockerState>,
}

/// The state of a chain that a job is to wait for.
#[derive(Debug)]
enum BlockerState {
    /// Open, with this number.
    Open(i64),
    /// Closed, with the notice of its end.
    Closed(Bytes),
}

impl ChainBlockers {
    /// Looks up the chains named in `after`. Each must exist and keep its result.
    pub(crate) fn find(tx: &Tx<'_>, after: &[JobId]) -> Result<Self, RequestError> {
        Ok(Self { blockers: after.iter().map(|chain| find_required(tx, chain)).collect::<Result<_, _>>()? })
    }

    /// The same for the next step of the chain of `job`. A chain that it cannot wait for counts as
    /// removed.
    pub(crate) fn find_for_step(tx: &Tx<'_>, after: &[JobId], job: &JobId) -> Result<Self, RequestError> {
        let find = |chain: &JobId| {
            let found = if *chain == job.chain() { Ok(None) } else { find_blocker(tx, chain) };
            let removed = || BlockerState::Closed(Blocker::removed_notice(chain));
            Ok(found?.and_then(Result::ok).unwrap_or_else(removed))
        };
        Ok(Self { blockers: after.iter().map(find).collect::<Result<_, RequestError>>()? })
    }

    /// Whether any chain is still open.
    pub(crate) fn any_open(&self) -> bool {
        self.count_open() > 0
    }

    fn count_open(&self) -> usize {
        self.blockers.iter().filter(|blocker| matches!(blocker, BlockerState::Open(_))).count()
    }

    /// Adds the notices of the chains to a job's envelope, if all chains are closed.
    pub(crate) fn add_notices(&self, envelope: &Bytes) -> Bytes {
        if self.blockers.is_empty() || self.any_open() {
            return envelope.clone();
        }
        let notices = self.blockers.iter().filter_map(|blocker| match blocker {
            BlockerState::Closed(notice) => Some(&notice[..]),
            BlockerState::Open(_) => None,
        });
        with_blockers(envelope, notices)
    }

    /// Registers the job with the number `waiter`, in the queue with this number, as waiting for
    /// the chains.
    pub(crate) fn register(&self, tx: &Tx<'_>, waiter: i64, queue_number: i64) -> Result<(), RequestError> {
        let mut block = tx.connection.prepare_cached(INSERT_BLOCKED)?;
        block.execute(params![waiter, queue_number, self.count_open() as i64])?;
        let mut insert = tx.connection.prepare_cached(INSERT_BLOCKER)?;
        for (position, state) in self.blockers.iter().enumerate() {
            let (blocker, notice) = match state {
                BlockerState::Open(seq) => (Some(*seq), None),
                BlockerState::Closed(notice) => (None, Some(&notice[..])),
            };
            insert.execute(params![waiter, position as i64, blocker, notice])?;
        }
        Ok(())
    }
}

fn find_required(tx: &Tx<'_>, chain: &JobId) -> Result<BlockerState, RequestError> {
    let missing = || Error::NotFound(format!("chain {}", chain.chain()));
    let not_kept =
        |ResultNotKept| Error::Invalid(format!("nothing can wait for chain {chain}: its result is not kept"));
    Ok(find_blocker(tx, chain)?.ok_or_else(missing)?.map_err(not_kept)?)
}

/// The chain keeps no result, so it has no notice to give when it closes.
struct ResultNotKept;

/// The current state of a chain, if it exists.
fn find_blocker(
    tx: &Tx<'_>,
    chain: &JobId,
) -> Result<Option<Result<BlockerState, ResultNotKept>>, RequestError> {
    if let Some(row) = find(tx, chain)?.filter(|row| !row.is_expired_at_most_once(tx.now)) {
        let keeps = Envelope::read(row.body).is_ok_and(|envelope| envelope.keep_result().is_some());
        return Ok(Some(if keeps { Ok(BlockerState::Open(row.seq)) } else { Err(ResultNotKept) }));
    }
    let record = find_record(tx, chain)?;
    Ok(record.map(|record| Ok(BlockerState::Closed(Blocker::notice(&record)))))
}

/// Deletes what a blocked job waits for, and its row in `blocked`.
pub(crate) fn stop_waiting(tx: &Tx<'_>, waiter: i64) -> Result<(), RequestError> {
    tx.connection.prepare_cached(DELETE_BLOCKERS)?.execute([waiter])?;
    tx.connection.prepare_cached(DELETE_BLOCKED)?.execute([waiter])?;
    Ok(())
}

/// The open chains that a job waits for, a bounded number.
pub(crate) fn waits_for(tx: &Tx<'_>, waiter: i64) -> Result<Vec<JobId>, RequestError> {
    let mut list = tx.connection.prepare_cached(LIST_OPEN_BLOCKERS)?;
    let mut rows = list.query([waiter])?;
    let mut chains = Vec::new();
    while let Some(row) = rows.next()? {
        chains.push(row::job_id(row, 0, row.get(1)?)?);
    }
    Ok(chains)
}
