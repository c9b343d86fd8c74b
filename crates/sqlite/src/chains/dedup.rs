//! Finding the chain that takes the place of another with the same key.

use rusqlite::{OptionalExtension, Row, params};
use tidemill_core::chain::{Dedup, DedupScope};
use tidemill_core::clock::millis;
use tidemill_core::name::JobId;

use crate::call::Tx;
use crate::error::Failure;

/// The latest chain with this key that counts.
pub(crate) fn find_by_key(tx: &Tx<'_>, dedup: &Dedup) -> Result<Option<JobId>, Failure> {
    let since = dedup.within.map_or(i64::MIN, |window| tx.now.0.saturating_sub(millis(window)));
    let open = open(tx, &dedup.key, since)?;
    let closed = match dedup.scope {
        DedupScope::Open => None,
        DedupScope::Any => closed(tx, &dedup.key, since)?,
    };
    // Of an open one and a closed one that began at the same time, the open one.
    let latest = match (open, closed) {
        (Some(open), Some(closed)) if closed.begun > open.begun => Some(closed),
        (open, closed) => open.or(closed),
    };
    Ok(latest.map(|started| JobId::new(&started.id)).transpose()?)
}

/// A chain and when it began.
struct Started {
    begun: i64,
    id: String,
}

impl Started {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { begun: row.get(0)?, id: row.get(1)? })
    }
}

fn open(tx: &Tx<'_>, key: &str, since: i64) -> Result<Option<Started>, Failure> {
    let mut open = tx.connection.prepare_cached(include_str!("../../sql/chains/open.sql"))?;
    Ok(open.query_row(params![key, since], Started::read).optional()?)
}

fn closed(tx: &Tx<'_>, key: &str, since: i64) -> Result<Option<Started>, Failure> {
    let mut closed = tx.connection.prepare_cached(include_str!("../../sql/chains/closed.sql"))?;
    Ok(closed.query_row(params![key, since, tx.now.0], Started::read).optional()?)
}
