//! Deduplication: finds the chain that a new job with the same key duplicates.

use rusqlite::{OptionalExtension, Row, params};
use tidemill_core::chain::{Dedup, DedupScope};
use tidemill_core::clock::millis;
use tidemill_core::name::JobId;

use crate::connection::Tx;
use crate::error::RequestError;

/// The latest open chain with a dedup key, if it began late enough.
const FIND_OPEN_BY_KEY: &str = "
    SELECT begun, id FROM tidemill_jobs WHERE key = ?1 AND begun > ?2 ORDER BY begun DESC, seq DESC
        LIMIT 1";

/// The latest closed chain with a dedup key whose record has not expired, if it began late enough.
const FIND_CLOSED_BY_KEY: &str = "
    SELECT begun, job FROM tidemill_records WHERE key = ?1 AND begun > ?2 AND expires > ?3
        ORDER BY begun DESC LIMIT 1";

/// The latest chain with this key that counts.
pub(crate) fn find_by_key(tx: &Tx<'_>, dedup: &Dedup) -> Result<Option<JobId>, RequestError> {
    let since = dedup.within.map_or(i64::MIN, |window| tx.now.0.saturating_sub(millis(window)));
    let open = open(tx, &dedup.key, since)?;
    let closed = match dedup.scope {
        DedupScope::Open => None,
        DedupScope::Any => closed(tx, &dedup.key, since)?,
    };
    // If an open and a closed chain began at the same time, the open one wins.
    let latest = match (open, closed) {
        (Some(open), Some(closed)) if closed.begun > open.begun => Some(closed),
        (open, closed) => open.or(closed),
    };
    Ok(latest.map(|chain| JobId::new(&chain.id)).transpose()?)
}

/// A chain with a dedup key, and when it began.
struct KeyedChain {
    begun: i64,
    id: String,
}

impl KeyedChain {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { begun: row.get(0)?, id: row.get(1)? })
    }
}

fn open(tx: &Tx<'_>, key: &str, since: i64) -> Result<Option<KeyedChain>, RequestError> {
    let mut open = tx.connection.prepare_cached(FIND_OPEN_BY_KEY)?;
    Ok(open.query_row(params![key, since], KeyedChain::read).optional()?)
}

fn closed(tx: &Tx<'_>, key: &str, since: i64) -> Result<Option<KeyedChain>, RequestError> {
    let mut closed = tx.connection.prepare_cached(FIND_CLOSED_BY_KEY)?;
    Ok(closed.query_row(params![key, since, tx.now.0], KeyedChain::read).optional()?)
}
