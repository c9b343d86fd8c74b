//! The choice of a worker for a session. Counting sessions is the cost among many workers. So
//! workers are read from the most used on, only until one is found that no other can beat, and full
//! ones are marked as such.

use rusqlite::{Row, named_params, params};
use tidemill_core::fleet::{Capacity, WorkerKey};
use tidemill_core::store::fleet::LeaseParams;

use super::row::{small, worker_key};
use super::{first, run};
use crate::connection::Tx;
use crate::error::RequestError;

/// The workers that can be leased if they have a free slot, the most used first. Columns: capacity
/// and lifetime, from which core decides. The write lock is held, so the result stays valid until
/// the session is inserted. `:only` restricts the workers; NULL means all. The caller stops reading
/// early, so rows must come in the order of the index.
const LIST_CANDIDATES: &str = "
    SELECT id, concurrent, most, lifetime
    FROM tidemill_members INDEXED BY tidemill_members_by_wear
    WHERE kind = :kind AND full_until <= :now AND status = 'available' AND stale_at > :now
        AND ordered_until <= :now AND grace_until <= :now
        AND (most = 0 OR lifetime < most) AND concurrent > 0 AND instr(:offers, ' ' || offer || ' ') > 0
        AND instr(:refused, ' ' || id || ' ') = 0
        AND (:only IS NULL OR instr(:only, ' ' || id || ' ') > 0)
    ORDER BY lifetime DESC";

/// Marks a worker as full until the first of its sessions ends.
const SET_FULL_UNTIL: &str = "
    UPDATE tidemill_members
    SET full_until = (SELECT min(until) FROM tidemill_sessions WHERE member = ?1 AND until > ?2)
    WHERE id = ?1";

/// How many sessions a worker has.
const COUNT_SESSIONS: &str = "SELECT count(*) FROM tidemill_sessions WHERE member = ?1 AND until > ?2";

/// How many workers of a kind and offers have sent a heartbeat recently: the available ones, and
/// all. Names contain no spaces, so a list of names is text with a space around each.
const COUNT_WORKERS: &str = "
    SELECT count(*) FILTER (WHERE status = 'available'), count(*) FROM tidemill_members
    WHERE kind = ?1 AND instr(?2, ' ' || offer || ' ') > 0 AND stale_at > ?3";

/// The workers to choose from.
pub(super) enum Candidates {
    /// All workers.
    All,
    /// The workers with these ids.
    Only(Vec<String>),
}

/// The result of a choice so far.
#[derive(Default)]
struct WorkerChoice {
    /// The best worker below the lifetime margin, with its lifetime and its number of sessions.
    best: Option<(WorkerKey, i64, u32)>,
    /// The first worker beyond the margin.
    beyond_margin: Option<WorkerKey>,
    /// The workers without a free session slot.
    full: Vec<WorkerKey>,
}

/// Chooses the best worker with a free session slot. `workers` is the number of available workers.
pub(super) fn choose(
    tx: &Tx<'_>,
    lease: &LeaseParams,
    candidates: &Candidates,
    workers: u32,
) -> Result<Option<WorkerKey>, RequestError> {
    let only = match candidates {
        Candidates::All => None,
        Candidates::Only(ids) if ids.is_empty() => return Ok(None),
        Candidates::Only(ids) => Some(spaced(ids)),
    };
    let mut choose = tx.connection.prepare_cached(LIST_CANDIDATES)?;
    let mut rows = choose.query(named_params! {
        ":kind": lease.kind.as_str(),
        ":now": tx.now.0,
        ":offers": spaced(&lease.offers),
        ":refused": spaced(&lease.rejected),
        ":only": only,
    })?;
    let mut choice = WorkerChoice::default();
    while let Some(row) = rows.next()? {
        if choice.is_final(row.get(3)?) {
            break;
        }
        choice.consider(tx, row, workers)?;
    }
    drop(rows);
    for worker in &choice.full {
        run(tx, SET_FULL_UNTIL, params![worker.to_string(), tx.now.0])?;
    }
    Ok(choice.best.map(|(worker, ..)| worker).or(choice.beyond_margin))
}

impl WorkerChoice {
    /// Whether no worker with this lifetime or a lower one can be better.
    fn is_final(&self, lifetime: i64) -> bool {
        self.best.as_ref().is_some_and(|(_, best_lifetime, active)| *active == 0 || lifetime < *best_lifetime)
    }

    fn consider(&mut self, tx: &Tx<'_>, row: &Row<'_>, workers: u32) -> Result<(), RequestError> {
        let (worker, lifetime) = (worker_key(row, 0)?, row.get::<_, i64>(3)?);
        let capacity = Capacity { concurrent: small(row, 1)?, lifetime: small(row, 2)? };
        let (active, sessions) = (active(tx, &worker)?, u64::try_from(lifetime).unwrap_or(0));
        if !capacity.is_free(active, sessions) {
            self.full.push(worker);
        } else if !capacity.is_preferred(sessions, workers) {
            self.beyond_margin.get_or_insert(worker);
        } else if self.best.as_ref().is_none_or(|(.., fewest)| active < *fewest) {
            self.best = Some((worker, lifetime, active));
        }
        Ok(())
    }
}

fn active(tx: &Tx<'_>, worker: &WorkerKey) -> Result<u32, RequestError> {
    Ok(first(tx, COUNT_SESSIONS, params![worker.to_string(), tx.now.0], |row| small(row, 0))?.unwrap_or(0))
}

/// How many workers of the kind and offers have sent a heartbeat recently.
#[derive(Default)]
pub(super) struct WorkerCounts {
    /// The available ones: the margin of a choice depends on their number.
    pub(super) available: u32,
    /// All of them. A client can wait for a draining worker, because its owner replaces it.
    pub(super) all: u32,
}

pub(super) fn count_workers(tx: &Tx<'_>, lease: &LeaseParams) -> Result<WorkerCounts, RequestError> {
    let key = params![lease.kind.as_str(), spaced(&lease.offers), tx.now.0];
    let counted = first(tx, COUNT_WORKERS, key, |row| {
        Ok(WorkerCounts { available: small(row, 0)?, all: small(row, 1)? })
    })?;
    Ok(counted.unwrap_or_default())
}

/// A list of names as the statements take it: with a space around each, because no name contains
/// one.
pub(super) fn spaced<T: ToString>(names: &[T]) -> String {
    names.iter().fold(String::from(" "), |list, name| list + &name.to_string() + " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_list_has_a_space_on_either_side() {
        let workers: Vec<WorkerKey> = ["a:b", "c:d"].map(|id| id.parse().unwrap()).into();
        assert_eq!(spaced(&workers), " a:b c:d ");
        assert_eq!(spaced::<WorkerKey>(&[]), " ");
    }
}
