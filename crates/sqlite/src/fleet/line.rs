//! Waiting in line for a member: first in, first out, for as long as somebody asks.

use rusqlite::params;
use tidemill_core::fleet::{SessionId, WorkerKind};
use tidemill_core::store::fleet::LeaseParams;
use tidemill_core::wake::Wake;

use super::choice::{Among, spaced};
use super::row::small;
use super::{first, run};
use crate::call::Tx;
use crate::error::Failure;

/// Where a wish stands in its line.
pub(super) struct Turn {
    /// Whether it has a place there.
    has_place: bool,
    /// Whether it has had its turn: it stands before all others.
    is_first: bool,
    /// Its number, or one that is greater than all others'.
    number: i64,
    /// How many are before it.
    pub(super) ahead: u32,
    /// How many wait, it not included.
    pub(super) others: u32,
}

impl Turn {
    pub(super) fn of(tx: &Tx<'_>, lease: &LeaseParams) -> Result<Self, Failure> {
        let (session, kind, offer) = (lease.session.as_str(), lease.kind.as_str(), line_of(lease));
        let place = include_str!("../../sql/tickets/place.sql");
        let own = first(tx, place, params![session, kind, offer, tx.now.0], |row| Ok(row.get::<_, i64>(0)?))?;
        let before = include_str!("../../sql/tickets/before.sql");
        let number = own.unwrap_or(i64::MAX);
        let key = params![kind, offer, tx.now.0, session, number];
        let counted = first(tx, before, key, |row| Ok((small(row, 0)?, small(row, 1)?)))?;
        let (ahead, others) = counted.unwrap_or((0, 0));
        Ok(Self { has_place: own.is_some(), is_first: false, number, ahead, others })
    }

    /// It has had its turn, and what it was given was no good.
    pub(super) fn come_first(&mut self) {
        (self.is_first, self.ahead) = (true, 0);
    }

    /// What it may be given: what nobody before it could use.
    pub(super) fn among(&self, tx: &Tx<'_>, lease: &LeaseParams) -> Result<Among, Failure> {
        match self.ahead {
            0 => Ok(Among::All),
            _ => Ok(Among::These(self.left_over(tx, lease)?)),
        }
    }

    /// The members that all who are before it refuse, and it does not.
    fn left_over(&self, tx: &Tx<'_>, lease: &LeaseParams) -> Result<Vec<String>, Failure> {
        let mut before = tx.connection.prepare_cached(include_str!("../../sql/tickets/refused.sql"))?;
        let (session, kind) = (lease.session.as_str(), lease.kind.as_str());
        let mut rows = before.query(params![kind, line_of(lease), tx.now.0, session, self.number])?;
        let Some(row) = rows.next()? else { return Ok(Vec::new()) };
        let own: Vec<String> = lease.rejected.iter().map(ToString::to_string).collect();
        let mut left: Vec<String> = row.get_ref(0)?.as_str()?.split_whitespace().map(str::to_owned).collect();
        left.retain(|member| !own.contains(member));
        while !left.is_empty()
            && let Some(row) = rows.next()?
        {
            let refused = row.get_ref(0)?.as_str()?;
            left.retain(|member| refused.contains(&spaced(&[member])));
        }
        Ok(left)
    }

    /// Waits, if the wish wants to and there is a place in the line; else it has none any more. Whether it waits.
    pub(super) fn wait(&self, tx: &mut Tx<'_>, lease: &LeaseParams) -> Result<bool, Failure> {
        let line =
            lease.wait.filter(|line| self.has_place || self.is_first || self.others < line.max_waiting);
        let Some(line) = line else {
            if leave(tx, &lease.session)? {
                call_next(tx, &lease.kind)?;
            }
            return Ok(false);
        };
        let (session, holder, until) =
            (lease.session.as_str(), lease.holder.as_str(), tx.now.after(line.ttl).0);
        let refused = spaced(&lease.rejected);
        if self.has_place {
            run(tx, include_str!("../../sql/tickets/renew.sql"), params![session, holder, until, refused])?;
        } else {
            let (kind, offer) = (lease.kind.as_str(), line_of(lease));
            let key = params![session, kind, offer, holder, until, refused, self.is_first];
            run(tx, include_str!("../../sql/tickets/take.sql"), key)?;
        }
        Ok(true)
    }
}

/// The first offer names the line; a wish without any was refused before.
fn line_of(lease: &LeaseParams) -> &str {
    lease.offers.first().map_or("", |offer| offer.as_str())
}

/// The session waits no more. Whether it did.
pub(super) fn leave(tx: &Tx<'_>, session: &SessionId) -> Result<bool, Failure> {
    Ok(run(tx, include_str!("../../sql/tickets/leave.sql"), [session.as_str()])? > 0)
}

/// Has those ask who wait for this kind, if there are any.
pub(super) fn call_next(tx: &mut Tx<'_>, kind: &WorkerKind) -> Result<(), Failure> {
    let waits = include_str!("../../sql/tickets/waits.sql");
    if first(tx, waits, params![kind.as_str(), tx.now.0], |row| Ok(row.get(0)?))? == Some(true) {
        tx.announcements.add(Wake::Capacity(kind.clone()));
    }
    Ok(())
}
