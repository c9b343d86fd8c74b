//! The store as an operator would examine it.

use rusqlite::Connection;
use tidemill_core::store::{Checkup, Finding, Severity};
use tidemill_core::{Error, Store};

use crate::call::{Cost, Tx};
use crate::error::Failure;
use crate::store::SqliteStore;

/// How many faults of the file are asked for: one is enough to act, a thousand would not help more.
const FAULTS: i64 = 5;

/// The largest file that is read through: a checkup should take seconds.
const LARGEST: i64 = 1 << 30;

pub(crate) async fn checkup(store: &SqliteStore) -> Result<Checkup, Error> {
    let mut findings = store.read(|tx| look(tx)).await?;
    findings.push(writing(store).await);
    findings.extend(store.bus().checkup().await);
    let server = format!("sqlite {}", rusqlite::version());
    Ok(Checkup { server, durability: store.durability(), findings })
}

fn look(tx: &Tx<'_>) -> Result<Vec<Finding>, Failure> {
    let connection = tx.connection;
    Ok(vec![
        log(connection)?,
        integrity(connection)?,
        places(connection)?,
        leases(tx)?,
        tasks(connection)?,
        alarms(connection)?,
    ])
}

fn log(connection: &Connection) -> Result<Finding, Failure> {
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    let severity = if mode == "wal" || mode == "memory" { Severity::Good } else { Severity::Warning };
    Ok(Finding::new(severity, "journal mode", mode))
}

fn integrity(connection: &Connection) -> Result<Finding, Failure> {
    if size(connection)? > LARGEST {
        let message = "the file is too large to look through here; run `PRAGMA quick_check` on a copy";
        return Ok(Finding::new(Severity::Good, "integrity", message));
    }
    let mut check = connection.prepare(&format!("PRAGMA quick_check({FAULTS})"))?;
    let faults: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(match faults.as_slice() {
        [fine] if fine == "ok" => Finding::new(Severity::Good, "integrity", "the file is sound"),
        faults => {
            let message = format!("the file is damaged, restore it from a backup: {}", faults.join("; "));
            Finding::new(Severity::Bad, "integrity", message)
        }
    })
}

fn size(connection: &Connection) -> Result<i64, Failure> {
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok(pages.saturating_mul(page))
}

/// Every job is in one place. One in none would never run.
fn places(connection: &Connection) -> Result<Finding, Failure> {
    let lost: i64 = connection.query_row(include_str!("../sql/jobs/lost.sql"), [], |row| row.get(0))?;
    Ok(match lost {
        0 => Finding::new(Severity::Good, "jobs", "every job is in one place"),
        lost => {
            Finding::new(Severity::Bad, "jobs", format!("{lost} jobs or more are in none or in two places"))
        }
    })
}

fn leases(tx: &Tx<'_>) -> Result<Finding, Failure> {
    let count = include_str!("../sql/jobs/overdue.sql");
    let expired: i64 = tx.connection.query_row(count, [tx.now.0], |row| row.get(0))?;
    Ok(match expired {
        0 => Finding::new(Severity::Good, "leases", "none has run out"),
        expired => {
            let message = format!("{expired} have run out; a running worker brings their jobs back");
            Finding::new(Severity::Warning, "leases", message)
        }
    })
}

/// Every run that has news has a task, unless somebody removed it.
fn tasks(connection: &Connection) -> Result<Finding, Failure> {
    let stuck: i64 = connection.query_row(include_str!("../sql/runs/stuck.sql"), [], |row| row.get(0))?;
    Ok(match stuck {
        0 => Finding::new(Severity::Good, "runs", "every run with news has a task"),
        stuck => {
            let message = format!("{stuck} or more have news and no task; the next event brings each one");
            Finding::new(Severity::Warning, "runs", message)
        }
    })
}

fn alarms(connection: &Connection) -> Result<Finding, Failure> {
    let aside: i64 = connection.query_row(include_str!("../sql/alarms/aside.sql"), [], |row| row.get(0))?;
    Ok(match aside {
        0 => Finding::new(Severity::Good, "alarms", "all can be read"),
        aside => {
            let message = format!("{aside} could not be read and will not go off; their runs wait for them");
            Finding::new(Severity::Bad, "alarms", message)
        }
    })
}

/// Writes, but changes nothing.
async fn writing(store: &SqliteStore) -> Finding {
    let touch = |tx: &mut Tx<'_>| {
        tx.connection.execute(include_str!("../sql/schema/touch.sql"), [])?;
        Ok(tx.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))?)
    };
    // Growth, so that a disk without room for the reserve is found out.
    match store.write(Cost::growth(1), touch).await {
        Ok(level) => {
            let level = if level >= 2 { "full" } else { "normal" };
            Finding::new(Severity::Good, "writing", format!("works, synchronous = {level}"))
        }
        Err(error) => Finding::new(Severity::Bad, "writing", error.full_message()),
    }
}
