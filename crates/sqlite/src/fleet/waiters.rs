//! Sessions that wait for a worker: first in, first out, as long as the client keeps asking.

use rusqlite::{named_params, params};
use tidemill_core::fleet::{SessionId, WorkerKind};
use tidemill_core::store::fleet::LeaseParams;
use tidemill_core::wake::Wake;

use super::choose_worker::{Candidates, spaced};
use super::row::small;
use super::{first, run};
use crate::connection::Tx;
use crate::error::RequestError;

/// The number of a session in a line.
const FIND_WAITER_NUMBER: &str = "
    SELECT number FROM tidemill_tickets WHERE session = ?1 AND kind = ?2 AND offer = ?3
        AND until > ?4";

/// How many sessions wait in a line before this number, and how many in all except this session.
const COUNT_WAITING_BEFORE: &str = "
    SELECT count(*) FILTER (WHERE number < :number), count(*) FROM tidemill_tickets
    WHERE kind = :kind AND offer = :offer AND until > :now AND session <> :session";

/// The workers that sessions before this number reject, in order. The caller stops reading early:
/// mostly the first session rejects none, and that decides.
const LIST_REJECTED_BEFORE: &str = "
    SELECT refused FROM tidemill_tickets
    WHERE kind = :kind AND offer = :offer AND until > :now AND session <> :session
        AND number < :number
    ORDER BY number";

/// Extends the ticket of a session that still waits.
const RENEW_WAITER: &str =
    "UPDATE tidemill_tickets SET holder = ?2, until = ?3, refused = ?4 WHERE session = ?1";

/// Adds a session at the end of a line, or at its front if `:at_front`. It replaces the session's ticket in
/// another line, or an expired one.
const INSERT_WAITER: &str = "
    INSERT OR REPLACE INTO tidemill_tickets (number, session, kind, offer, holder, until, refused)
    VALUES ((SELECT min(number) - 1 FROM tidemill_tickets WHERE :at_front), :session, :kind, :offer,
        :holder, :until, :refused)";

/// Removes a session from its line.
const DELETE_WAITER: &str = "DELETE FROM tidemill_tickets WHERE session = ?1";

/// Whether a session waits for a worker of this kind.
const WAITER_EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM tidemill_tickets WHERE kind = ?1 AND until > ?2)";

/// The position of a session in the line of its kind and offer.
pub(super) struct WaitPosition {
    /// Whether it already has a row in `tickets`.
    is_waiting: bool,
    /// Whether it goes to the front, because it has had its turn.
    is_at_front: bool,
    /// Its number, or one that is greater than all others.
    number: i64,
    /// How many sessions are before it.
    pub(super) ahead: u32,
    /// How many other sessions wait.
    pub(super) others: u32,
}

impl WaitPosition {
    pub(super) fn find(tx: &Tx<'_>, lease: &LeaseParams) -> Result<Self, RequestError> {
        let (session, kind, offer) = (lease.session.as_str(), lease.kind.as_str(), first_offer(lease));
        let own = first(tx, FIND_WAITER_NUMBER, params![session, kind, offer, tx.now.0], |row| {
            Ok(row.get::<_, i64>(0)?)
        })?;
        let number = own.unwrap_or(i64::MAX);
        let line = named_params! {
            ":session": session,
            ":kind": kind,
            ":offer": offer,
            ":now": tx.now.0,
            ":number": number,
        };
        let counted = first(tx, COUNT_WAITING_BEFORE, line, |row| Ok((small(row, 0)?, small(row, 1)?)))?;
        let (ahead, others) = counted.unwrap_or((0, 0));
        Ok(Self { is_waiting: own.is_some(), is_at_front: false, number, ahead, others })
    }

    /// Moves the session to the front: it had its turn and rejected the worker that it got.
    pub(super) fn move_to_front(&mut self) {
        (self.is_at_front, self.ahead) = (true, 0);
    }

    /// The workers that the session may get: those that no session before it can use.
    pub(super) fn candidates(&self, tx: &Tx<'_>, lease: &LeaseParams) -> Result<Candidates, RequestError> {
        match self.ahead {
            0 => Ok(Candidates::All),
            _ => Ok(Candidates::Only(self.rejected_by_all_before(tx, lease)?)),
        }
    }

    /// The workers that all sessions before it reject, and it does not.
    fn rejected_by_all_before(&self, tx: &Tx<'_>, lease: &LeaseParams) -> Result<Vec<String>, RequestError> {
        let mut list = tx.connection.prepare_cached(LIST_REJECTED_BEFORE)?;
        let mut rows = list.query(named_params! {
            ":session": lease.session.as_str(),
            ":kind": lease.kind.as_str(),
            ":offer": first_offer(lease),
            ":now": tx.now.0,
            ":number": self.number,
        })?;
        let Some(row) = rows.next()? else { return Ok(Vec::new()) };
        let own: Vec<String> = lease.rejected.iter().map(ToString::to_string).collect();
        let mut left: Vec<String> = row.get_ref(0)?.as_str()?.split_whitespace().map(str::to_owned).collect();
        left.retain(|worker| !own.contains(worker));
        while !left.is_empty()
            && let Some(row) = rows.next()?
        {
            let refused = row.get_ref(0)?.as_str()?;
            left.retain(|worker| refused.contains(&spaced(&[worker])));
        }
        Ok(left)
    }

    /// Queues or requeues the session, if it wants to wait and the line is not full. Otherwise it
    /// is removed from the line. Returns whether it waits.
    pub(super) fn wait(&self, tx: &mut Tx<'_>, lease: &LeaseParams) -> Result<bool, RequestError> {
        let line =
            lease.wait.filter(|line| self.is_waiting || self.is_at_front || self.others < line.max_waiting);
        let Some(line) = line else {
            if remove(tx, &lease.session)? {
                wake(tx, &lease.kind)?;
            }
            return Ok(false);
        };
        let (session, holder, until) =
            (lease.session.as_str(), lease.holder.as_str(), tx.now.after(line.ttl).0);
        let refused = spaced(&lease.rejected);
        if self.is_waiting {
            run(tx, RENEW_WAITER, params![session, holder, until, refused])?;
        } else {
            let waiter = named_params! {
                ":session": session,
                ":kind": lease.kind.as_str(),
                ":offer": first_offer(lease),
                ":holder": holder,
                ":until": until,
                ":refused": refused,
                ":at_front": self.is_at_front,
            };
            run(tx, INSERT_WAITER, waiter)?;
        }
        Ok(true)
    }
}

/// The first offer, which names the line. A lease without offers was rejected before.
fn first_offer(lease: &LeaseParams) -> &str {
    lease.offers.first().map_or("", |offer| offer.as_str())
}

/// Removes a session from its line. Returns whether it waited.
pub(super) fn remove(tx: &Tx<'_>, session: &SessionId) -> Result<bool, RequestError> {
    Ok(run(tx, DELETE_WAITER, [session.as_str()])? > 0)
}

/// Wakes the sessions that wait for this kind of worker, if there are any.
pub(super) fn wake(tx: &mut Tx<'_>, kind: &WorkerKind) -> Result<(), RequestError> {
    if first(tx, WAITER_EXISTS, params![kind.as_str(), tx.now.0], |row| Ok(row.get(0)?))? == Some(true) {
        tx.wakes.add(Wake::Capacity(kind.clone()));
    }
    Ok(())
}
