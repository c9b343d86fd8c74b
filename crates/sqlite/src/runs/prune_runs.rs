//! `prune_runs`: deletes runs that ended long enough ago.

use rusqlite::OptionalExtension;
use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::store::runs::PruneRunsParams;

use super::alarms::DELETE_ALARMS;
use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::store::SqliteStore;

/// A bounded number of expired runs.
const LIST_EXPIRED_RUNS: &str =
    "SELECT number FROM tidemill_runs WHERE expires <= ?1 ORDER BY expires LIMIT ?2";

/// The next workflow type that has closed runs: one step in the index, however many runs there
/// are.
const FIND_NEXT_WORKFLOW: &str = "
    SELECT workflow FROM tidemill_runs WHERE closed IS NOT NULL AND workflow > ?1 ORDER BY workflow
        LIMIT 1";

/// The oldest closed runs of a type beyond the latest ?3, except those that closed after ?4.
/// Skipping the latest reads the index only. If there are no more than those, the inner query
/// returns no row.
const LIST_SURPLUS_RUNS: &str = "
    SELECT number FROM tidemill_runs
    WHERE workflow = ?1 AND closed <= ?4 AND (closed, number) <= (
        SELECT closed, number FROM tidemill_runs WHERE workflow = ?1 AND closed IS NOT NULL
        ORDER BY closed DESC, number DESC LIMIT 1 OFFSET ?3)
    ORDER BY closed, number LIMIT ?2";

/// Deletes a journal.
const DELETE_JOURNAL: &str = "DELETE FROM tidemill_journal WHERE run = ?1";

/// Deletes the delivery ids of a run.
const DELETE_DELIVERIES: &str = "DELETE FROM tidemill_run_seen WHERE run = ?1";

/// Deletes the search attributes of a run.
const DELETE_ATTRIBUTES: &str = "DELETE FROM tidemill_run_attributes WHERE run = ?1";

/// Deletes a run's key, unless it belongs to another run by now.
const DELETE_RUN_KEY: &str = "
    DELETE FROM tidemill_run_keys
    WHERE (workflow, key) = (SELECT workflow, key FROM tidemill_runs WHERE number = ?1) AND run = ?1";

/// Deletes a run.
const DELETE_RUN_ROW: &str = "DELETE FROM tidemill_runs WHERE number = ?1";

/// The most runs that one call deletes.
const MAX_PRUNED_RUNS: u64 = 1_000;

/// The number of deleted rows after which a call stops: journals may be long, and other requests
/// have to run.
const MAX_PRUNED_ROWS: usize = 10_000;

pub(crate) async fn prune_runs(store: &SqliteStore, prune: PruneRunsParams) -> Result<u64, Error> {
    store.write(Cost::change(MAX_PRUNED_ROWS), move |tx| prune_batch(tx, prune)).await
}

fn prune_batch(tx: &Tx<'_>, prune: PruneRunsParams) -> Result<u64, RequestError> {
    let mut deleted = DeletedRuns { runs: 0, rows: 0 };
    let expired = numbers(tx, LIST_EXPIRED_RUNS, &[tx.now.0, MAX_PRUNED_RUNS as i64])?;
    deleted.delete(tx, expired)?;
    let mut workflow = String::new();
    while deleted.is_below_limits()
        && let Some(next) = next_workflow(tx, &workflow)?
    {
        deleted.delete(tx, surplus(tx, &next, prune)?)?;
        workflow = next;
    }
    Ok(deleted.runs)
}

/// Deletes runs and counts them, up to the limits of one call.
struct DeletedRuns {
    runs: u64,
    rows: usize,
}

impl DeletedRuns {
    fn is_below_limits(&self) -> bool {
        self.runs < MAX_PRUNED_RUNS && self.rows < MAX_PRUNED_ROWS
    }

    fn delete(&mut self, tx: &Tx<'_>, runs: Vec<i64>) -> Result<(), RequestError> {
        for run in runs {
            if !self.is_below_limits() {
                break;
            }
            self.rows += delete_run(tx, run)?;
            self.runs += 1;
        }
        Ok(())
    }
}

/// The first workflow type after this one that has closed runs.
fn next_workflow(tx: &Tx<'_>, after: &str) -> Result<Option<String>, RequestError> {
    let mut next = tx.connection.prepare_cached(FIND_NEXT_WORKFLOW)?;
    Ok(next.query_row([after], |row| row.get(0)).optional()?)
}

/// The oldest runs of a type beyond the newest `most`, unless they ended only just now.
fn surplus(tx: &Tx<'_>, workflow: &str, prune: PruneRunsParams) -> Result<Vec<i64>, RequestError> {
    let keep = i64::try_from(prune.max_kept).unwrap_or(i64::MAX);
    let ended_by = tx.now.0.saturating_sub(millis(prune.min_age));
    let mut surplus = tx.connection.prepare_cached(LIST_SURPLUS_RUNS)?;
    let runs = surplus
        .query_map(rusqlite::params![workflow, MAX_PRUNED_RUNS as i64, keep, ended_by], |row| row.get(0))?;
    Ok(runs.collect::<Result<_, _>>()?)
}

fn numbers(tx: &Tx<'_>, sql: &str, key: &[i64]) -> Result<Vec<i64>, RequestError> {
    let mut list = tx.connection.prepare_cached(sql)?;
    let numbers = list.query_map(rusqlite::params_from_iter(key), |row| row.get(0))?;
    Ok(numbers.collect::<Result<_, _>>()?)
}

/// The statements that delete everything of a run. The key goes only if it still belongs to this
/// run. The run's own row goes last, because it names the key.
const DELETE_RUN: [&str; 6] =
    [DELETE_JOURNAL, DELETE_ALARMS, DELETE_DELIVERIES, DELETE_ATTRIBUTES, DELETE_RUN_KEY, DELETE_RUN_ROW];

/// Deletes a run with everything it has. Returns the number of deleted rows.
pub(super) fn delete_run(tx: &Tx<'_>, run: i64) -> Result<usize, RequestError> {
    let mut rows = 0;
    for statement in DELETE_RUN {
        rows += tx.connection.prepare_cached(statement)?.execute([run])?;
    }
    Ok(rows)
}
