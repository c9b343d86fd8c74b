//! The choice of a worker for a session. Counting sessions is the cost among many workers. So
//! workers are read from the most used on, only until one is found that no other can beat, and full
//! ones are marked as such.

use rusqlite::{Row, params};
use tidemill_core::fleet::{Capacity, WorkerKey};
use tidemill_core::store::fleet::LeaseParams;

use super::row::{small, worker_key};
use super::{first, run};
use crate::connection::Tx;
use crate::error::RequestError;

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
    let mut choose = tx.connection.prepare_cached(sql!("members/choose"))?;
    let (offers, refused) = (spaced(&lease.offers), spaced(&lease.rejected));
    let mut rows = choose.query(params![lease.kind.as_str(), offers, refused, tx.now.0, only])?;
    let mut choice = WorkerChoice::default();
    while let Some(row) = rows.next()? {
        if choice.is_final(row.get(3)?) {
            break;
        }
        choice.consider(tx, row, workers)?;
    }
    drop(rows);
    for worker in &choice.full {
        run(tx, sql!("members/set_full"), params![worker.to_string(), tx.now.0])?;
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
    let count = sql!("sessions/count");
    Ok(first(tx, count, params![worker.to_string(), tx.now.0], |row| small(row, 0))?.unwrap_or(0))
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
    let count = sql!("members/count");
    let key = params![lease.kind.as_str(), spaced(&lease.offers), tx.now.0];
    let counted =
        first(tx, count, key, |row| Ok(WorkerCounts { available: small(row, 0)?, all: small(row, 1)? }))?;
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
