//! `checkup`: the health of the store, for operators.

use rusqlite::Connection;
use tidemill_core::store::{Checkup, Finding, Severity};
use tidemill_core::{Error, Store};

use crate::connection::{Cost, Tx};
use crate::error::RequestError;
use crate::store::SqliteStore;

/// How many jobs are in no state or in two, among a bounded number of the oldest, which should
/// have moved on by now. A job that waits for no chain is not blocked.
const COUNT_MISPLACED_JOBS: &str = "
    SELECT count(*) FROM (SELECT seq, queue, due, died FROM tidemill_jobs ORDER BY seq
        LIMIT 10000) j
    WHERE (j.died IS NOT NULL)
        + EXISTS (SELECT 1 FROM tidemill_running r WHERE r.seq = j.seq)
        + EXISTS (SELECT 1 FROM tidemill_blocked b WHERE b.seq = j.seq AND b.open > 0)
        + EXISTS (SELECT 1 FROM tidemill_waiting w WHERE w.queue = j.queue AND w.due = j.due
        AND w.seq = j.seq) <> 1";

/// How many leases have expired.
const COUNT_EXPIRED_LEASES: &str = "SELECT count(*) FROM tidemill_running WHERE until <= ?1";

/// How many runs have unconsumed events and no task, among a bounded number of the oldest open
/// runs.
const COUNT_STUCK_RUNS: &str = "
    SELECT count(*) FROM (SELECT number, id, cursor FROM tidemill_runs WHERE status = 'running'
        ORDER BY started LIMIT 10000) r
    WHERE NOT EXISTS (SELECT 1 FROM tidemill_jobs j WHERE j.id = r.id || '!task')
        AND EXISTS (SELECT 1 FROM tidemill_journal e WHERE e.run = r.number
        AND e.position > r.cursor AND e.kind <> 'c')";

/// How many alarms could not be parsed.
const COUNT_INVALID_ALARMS: &str = "SELECT count(*) FROM tidemill_alarms WHERE due IS NULL";

/// A write that changes nothing.
const TOUCH_SCHEMA: &str = "UPDATE tidemill_schema SET version = version";

/// How many faults of the file are listed. One is enough to act on.
const MAX_FAULTS: i64 = 5;

/// The largest file that is checked in full: a checkup should take seconds.
const MAX_CHECKED_BYTES: i64 = 1 << 30;

pub(crate) async fn checkup(store: &SqliteStore) -> Result<Checkup, Error> {
    let mut findings = store.read(|tx| read_findings(tx)).await?;
    findings.push(check_write(store).await);
    if let Some(transport) = store.transport() {
        findings.extend(transport.checkup().await);
    }
    let server = format!("sqlite {}", rusqlite::version());
    Ok(Checkup { server, durability: store.durability(), findings })
}

fn read_findings(tx: &Tx<'_>) -> Result<Vec<Finding>, RequestError> {
    let connection = tx.connection;
    Ok(vec![
        journal_mode(connection)?,
        integrity(connection)?,
        job_states(connection)?,
        leases(tx)?,
        tasks(connection)?,
        alarms(connection)?,
    ])
}

fn journal_mode(connection: &Connection) -> Result<Finding, RequestError> {
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    let severity = if mode == "wal" || mode == "memory" { Severity::Good } else { Severity::Warning };
    Ok(Finding::new(severity, "journal mode", mode))
}

fn integrity(connection: &Connection) -> Result<Finding, RequestError> {
    if size(connection)? > MAX_CHECKED_BYTES {
        let message = "the file is too large to look through here; run `PRAGMA quick_check` on a copy";
        return Ok(Finding::new(Severity::Good, "integrity", message));
    }
    let mut check = connection.prepare(&format!("PRAGMA quick_check({MAX_FAULTS})"))?;
    let faults: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(match faults.as_slice() {
        [fine] if fine == "ok" => Finding::new(Severity::Good, "integrity", "the file is sound"),
        faults => {
            let message = format!("the file is damaged, restore it from a backup: {}", faults.join("; "));
            Finding::new(Severity::Bad, "integrity", message)
        }
    })
}

fn size(connection: &Connection) -> Result<i64, RequestError> {
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok(pages.saturating_mul(page))
}

/// Checks that every job is in exactly one state. A job in none would never run.
fn job_states(connection: &Connection) -> Result<Finding, RequestError> {
    let lost: i64 = connection.query_row(COUNT_MISPLACED_JOBS, [], |row| row.get(0))?;
    Ok(match lost {
        0 => Finding::new(Severity::Good, "jobs", "every job is in one place"),
        lost => {
            Finding::new(Severity::Bad, "jobs", format!("{lost} jobs or more are in none or in two places"))
        }
    })
}

fn leases(tx: &Tx<'_>) -> Result<Finding, RequestError> {
    let expired: i64 = tx.connection.query_row(COUNT_EXPIRED_LEASES, [tx.now.0], |row| row.get(0))?;
    Ok(match expired {
        0 => Finding::new(Severity::Good, "leases", "none has run out"),
        expired => {
            let message = format!("{expired} have run out; a running worker brings their jobs back");
            Finding::new(Severity::Warning, "leases", message)
        }
    })
}

/// Checks that every run with unconsumed events has a task. Only a removed task violates this.
fn tasks(connection: &Connection) -> Result<Finding, RequestError> {
    let stuck: i64 = connection.query_row(COUNT_STUCK_RUNS, [], |row| row.get(0))?;
    Ok(match stuck {
        0 => Finding::new(Severity::Good, "runs", "every run with news has a task"),
        stuck => {
            let message = format!("{stuck} or more have news and no task; the next event brings each one");
            Finding::new(Severity::Warning, "runs", message)
        }
    })
}

fn alarms(connection: &Connection) -> Result<Finding, RequestError> {
    let invalid: i64 = connection.query_row(COUNT_INVALID_ALARMS, [], |row| row.get(0))?;
    Ok(match invalid {
        0 => Finding::new(Severity::Good, "alarms", "all can be read"),
        invalid => {
            let message =
                format!("{invalid} could not be read and will not go off; their runs wait for them");
            Finding::new(Severity::Bad, "alarms", message)
        }
    })
}

/// Runs a write that changes nothing.
async fn check_write(store: &SqliteStore) -> Finding {
    let touch = |tx: &mut Tx<'_>| {
        tx.connection.execute(TOUCH_SCHEMA, [])?;
        Ok(tx.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))?)
    };
    // Growth, so that a disk without space for the reserve is reported.
    match store.write(Cost::growth(1), touch).await {
        Ok(level) => {
            let level = if level >= 2 { "full" } else { "normal" };
            Finding::new(Severity::Good, "writing", format!("works, synchronous = {level}"))
        }
        Err(error) => Finding::new(Severity::Bad, "writing", error.full_message()),
    }
}
