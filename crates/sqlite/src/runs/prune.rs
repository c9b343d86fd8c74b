//! Removing runs that have ended long enough ago.

use rusqlite::OptionalExtension;
use tidemill_core::Error;
use tidemill_core::clock::millis;
use tidemill_core::store::runs::PruneRunsParams;

use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::store::SqliteStore;

/// The most runs that one call removes.
const RUNS: u64 = 1_000;

/// After so many rows it stops: journals may be long, and others want to write too.
const ROWS: usize = 10_000;

pub(crate) async fn prune(store: &SqliteStore, prune: PruneRunsParams) -> Result<u64, Error> {
    store.write(Cost::change(ROWS), move |tx| prune_some(tx, prune)).await
}

fn prune_some(tx: &Tx<'_>, prune: PruneRunsParams) -> Result<u64, Failure> {
    let mut broom = Broom { runs: 0, rows: 0 };
    let expired = numbers(tx, include_str!("../../sql/runs/expired.sql"), &[tx.now.0, RUNS as i64])?;
    broom.sweep(tx, expired)?;
    let mut workflow = String::new();
    while broom.goes_on()
        && let Some(next) = next_workflow(tx, &workflow)?
    {
        broom.sweep(tx, surplus(tx, &next, prune)?)?;
        workflow = next;
    }
    Ok(broom.runs)
}

/// Removes a bounded number of runs.
struct Broom {
    runs: u64,
    rows: usize,
}

impl Broom {
    fn goes_on(&self) -> bool {
        self.runs < RUNS && self.rows < ROWS
    }

    fn sweep(&mut self, tx: &Tx<'_>, runs: Vec<i64>) -> Result<(), Failure> {
        for run in runs {
            if !self.goes_on() {
                break;
            }
            self.rows += remove(tx, run)?;
            self.runs += 1;
        }
        Ok(())
    }
}

/// The first type after this one that has runs which have ended.
fn next_workflow(tx: &Tx<'_>, after: &str) -> Result<Option<String>, Failure> {
    let mut next = tx.connection.prepare_cached(include_str!("../../sql/runs/next_workflow.sql"))?;
    Ok(next.query_row([after], |row| row.get(0)).optional()?)
}

/// The oldest runs of a type beyond the newest `most`, unless they have only just ended.
fn surplus(tx: &Tx<'_>, workflow: &str, prune: PruneRunsParams) -> Result<Vec<i64>, Failure> {
    let most = i64::try_from(prune.max_kept).unwrap_or(i64::MAX);
    let ended_by = tx.now.0.saturating_sub(millis(prune.min_age));
    let mut surplus = tx.connection.prepare_cached(include_str!("../../sql/runs/surplus.sql"))?;
    let runs =
        surplus.query_map(rusqlite::params![workflow, RUNS as i64, most, ended_by], |row| row.get(0))?;
    Ok(runs.collect::<Result<_, _>>()?)
}

fn numbers(tx: &Tx<'_>, sql: &str, key: &[i64]) -> Result<Vec<i64>, Failure> {
    let mut list = tx.connection.prepare_cached(sql)?;
    let numbers = list.query_map(rusqlite::params_from_iter(key), |row| row.get(0))?;
    Ok(numbers.collect::<Result<_, _>>()?)
}

/// Everything a run has. The key only if it is still this run's; the run's own row last, because it names the key.
const PARTS: [&str; 6] = [
    include_str!("../../sql/journal/remove.sql"),
    include_str!("../../sql/alarms/clear.sql"),
    include_str!("../../sql/runs/forget_seen.sql"),
    include_str!("../../sql/runs/forget_attributes.sql"),
    include_str!("../../sql/runs/release_key.sql"),
    include_str!("../../sql/runs/remove.sql"),
];

/// Removes a run with all it has. Returns how many rows that was.
pub(super) fn remove(tx: &Tx<'_>, run: i64) -> Result<usize, Failure> {
    let mut rows = 0;
    for part in PARTS {
        rows += tx.connection.prepare_cached(part)?.execute([run])?;
    }
    Ok(rows)
}
