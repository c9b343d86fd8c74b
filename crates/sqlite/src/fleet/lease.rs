//! `lease`: gives a worker to a session, or queues the session.

use rusqlite::params;
use tidemill_core::clock::millis;
use tidemill_core::fleet::Offer;
use tidemill_core::store::fleet::{Grant, LeaseParams, Leased};
use tidemill_core::{Error, Timestamp};

use super::choose_worker::{Candidates, choose, count_workers};
use super::close::DELETE_SESSION;
use super::row::worker_key;
use super::session_row::{NewSession, after_end, insert};
use super::waiters::WaitPosition;
use super::{first, run, waiters, worker_row};
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::store::SqliteStore;

/// The worker that a session already has, with its endpoint if it still exists.
const FIND_SESSION_WITH_WORKER: &str = "
    SELECT s.member, s.keep, m.endpoint, m.offer
    FROM tidemill_sessions s LEFT JOIN tidemill_members m ON m.id = s.member
    WHERE s.id = ?1 AND s.until > ?2";

/// Extends a session.
const RENEW_SESSION: &str = "UPDATE tidemill_sessions SET until = ?2 WHERE id = ?1";

/// The endpoint and the offer of a worker.
const FIND_ENDPOINT: &str = "SELECT endpoint, offer FROM tidemill_members WHERE id = ?1";

pub(super) async fn lease(store: &SqliteStore, lease: &LeaseParams) -> Result<Leased, Error> {
    lease.check()?;
    let lease = lease.clone();
    store.write(Cost::growth(1).without_sync(), move |tx| lease_one(tx, &lease)).await
}

fn lease_one(tx: &mut Tx<'_>, lease: &LeaseParams) -> Result<Leased, RequestError> {
    let mut position = WaitPosition::find(tx, lease)?;
    match renew(tx, lease)? {
        PreviousLease::Kept(grant) => return Ok(Leased::Granted(grant)),
        PreviousLease::Returned => position.move_to_front(),
        PreviousLease::None => {}
    }
    let workers = count_workers(tx, lease)?;
    let candidates = position.candidates(tx, lease)?;
    if let Some(grant) = grant(tx, lease, &candidates, workers.available)? {
        waiters::remove(tx, &lease.session)?;
        waiters::wake(tx, &lease.kind)?;
        return Ok(Leased::Granted(grant));
    }
    if position.wait(tx, lease)? {
        return Ok(Leased::Waiting { ahead: position.ahead, workers: workers.all });
    }
    Ok(Leased::Refused { waiting: position.others, workers: workers.all })
}

/// The worker that a session had before this call.
enum PreviousLease {
    /// A worker, which it keeps.
    Kept(Grant),
    /// A worker that the client rejected. The session no longer has it.
    Returned,
    /// None, or one that is gone.
    None,
}

/// Renews the lease of the worker that the session already has. If the client rejected the worker
/// or it is gone, the session ends.
fn renew(tx: &mut Tx<'_>, lease: &LeaseParams) -> Result<PreviousLease, RequestError> {
    let key = params![lease.session.as_str(), tx.now.0];
    let found = first(tx, FIND_SESSION_WITH_WORKER, key, |row| {
        let address = row.get::<_, Option<String>>(2)?.zip(row.get::<_, Option<String>>(3)?);
        Ok((worker_key(row, 0)?, row.get::<_, i64>(1)?, address))
    })?;
    let Some((worker, keep, address)) = found else { return Ok(PreviousLease::None) };
    let is_refused = lease.rejected.contains(&worker);
    let Some((endpoint, offer)) = address.filter(|_| !is_refused) else {
        run(tx, DELETE_SESSION, [lease.session.as_str()])?;
        after_end(tx, &worker)?;
        return Ok(if is_refused { PreviousLease::Returned } else { PreviousLease::None });
    };
    let until = Timestamp(tx.now.0.saturating_add(millis(lease.ttl).max(keep)));
    run(tx, RENEW_SESSION, params![lease.session.as_str(), until.0])?;
    worker_row::recheck_capacity(tx, &worker, until)?;
    Ok(PreviousLease::Kept(Grant { worker, endpoint, offer: Offer::new(&offer)?, until }))
}

/// Gives the best worker to the session.
fn grant(
    tx: &mut Tx<'_>,
    lease: &LeaseParams,
    candidates: &Candidates,
    workers: u32,
) -> Result<Option<Grant>, RequestError> {
    let Some(worker) = choose(tx, lease, candidates, workers)? else { return Ok(None) };
    insert(tx, &NewSession::from_lease(lease, &worker, tx.now))?;
    worker_row::count_session(tx, &worker)?;
    let until = tx.now.after(lease.ttl.max(lease.keep));
    first(tx, FIND_ENDPOINT, [worker.to_string()], |row| {
        Ok(Grant { worker, endpoint: row.get(0)?, offer: Offer::new(row.get_ref(1)?.as_str()?)?, until })
    })
}
