//! `extend`: extends the leases of running jobs.

use rusqlite::OptionalExtension;
use tidemill_core::store::{ExtendParams, Extended};
use tidemill_core::{Error, Token};

use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::row::{self};
use crate::store::SqliteStore;

/// When a lease ends, and whether its job is to be cancelled, if the lease is still the current
/// one.
const FIND_LEASE_END: &str = "SELECT cancelling, until FROM tidemill_running WHERE seq = ?1 AND token = ?2";

/// An extension by less than this fraction of the lease's length is not written.
const MIN_EXTENSION_DIVISOR: u32 = 10;

/// Extends leases. Leases that were extended only just now are read and not written. Workers extend
/// at once when another process has written, so each extension would cause more of them. The commit
/// does not wait for the disk, because no worker survives a power cut of the machine that holds the
/// file.
pub(crate) async fn extend(store: &SqliteStore, extend: ExtendParams<'_>) -> Result<Vec<Extended>, Error> {
    let tokens: Vec<_> = extend.leases.iter().map(|lease| lease.token).collect();
    let (lease, read_tokens) = (extend.lease, tokens.clone());
    let read = move |tx: &mut Tx<'_>| {
        let late_enough = tx.now.after(lease - lease / MIN_EXTENSION_DIVISOR).0;
        read_tokens.iter().map(|token| check_one(tx, *token, late_enough)).collect()
    };
    let unchanged: Option<Vec<Extended>> = store.read(read).await?;
    if let Some(extended) = unchanged {
        return Ok(extended);
    }
    let work = move |tx: &mut Tx<'_>| {
        let until = tx.now.after(lease).0;
        tokens.iter().map(|token| extend_one(tx, *token, until)).collect()
    };
    store.write(Cost::change(extend.leases.len()).without_sync(), work).await
}

/// The result for a lease that need not be extended, because it ends at `late_enough` or later.
/// None if it must be extended.
fn check_one(tx: &Tx<'_>, token: Token, late_enough: i64) -> Result<Option<Extended>, RequestError> {
    let (claim, seq) = row::claim_and_seq(token);
    let mut read = tx.connection.prepare_cached(FIND_LEASE_END)?;
    let found = read.query_row([seq, claim], |row| Ok((row.get::<_, bool>(0)?, row.get::<_, i64>(1)?)));
    Ok(match found.optional()? {
        None => Some(Extended::Lost),
        Some((_, until)) if until < late_enough => None,
        Some((false, _)) => Some(Extended::Yes),
        Some((true, _)) => Some(Extended::Cancelling),
    })
}

fn extend_one(tx: &Tx<'_>, token: Token, until: i64) -> Result<Extended, RequestError> {
    let (claim, seq) = row::claim_and_seq(token);
    let mut extend = tx.connection.prepare_cached(sql!("jobs/extend"))?;
    let cancelling = extend.query_row([seq, claim, until], |row| row.get::<_, bool>(0)).optional()?;
    Ok(match cancelling {
        Some(false) => Extended::Yes,
        Some(true) => Extended::Cancelling,
        None => Extended::Lost,
    })
}
