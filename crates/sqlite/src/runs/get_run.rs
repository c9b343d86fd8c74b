//! `get_run`: reads one run.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row};
use tidemill_core::store::runs::{ParentRef, RunInfo};
use tidemill_core::workflow::{Json, RunId, Topic, Version, WorkflowName};
use tidemill_core::{Error, Timestamp};

use crate::connection::Tx;
use crate::error::RequestError;
use crate::row;
use crate::store::SqliteStore;

/// The number of a run.
const FIND_RUN_NUMBER: &str = "SELECT number FROM tidemill_runs WHERE id = ?1";

/// The search attributes of a run.
const LIST_ATTRIBUTES: &str = "SELECT name, value FROM tidemill_run_attributes WHERE run = ?1";

pub(crate) async fn get_run(store: &SqliteStore, run: &RunId) -> Result<Option<RunInfo>, Error> {
    let run = run.clone();
    let read = move |tx: &mut Tx<'_>| {
        let mut number = tx.connection.prepare_cached(FIND_RUN_NUMBER)?;
        let number = number.query_row([run.as_str()], |row| row.get(0)).optional()?;
        number.map_or(Ok(None), |number| read_info(tx, number))
    };
    store.read(read).await
}

/// Reads everything about the run with this number.
pub(super) fn read_info(tx: &Tx<'_>, number: i64) -> Result<Option<RunInfo>, RequestError> {
    let mut get = tx.connection.prepare_cached(sql!("runs/get_run"))?;
    let mut rows = get.query([number])?;
    rows.next()?.map(|row| info_from_row(row, attributes(tx, number)?)).transpose()
}

fn info_from_row(row: &Row<'_>, attributes: BTreeMap<Topic, Json>) -> Result<RunInfo, RequestError> {
    let time = |column| Ok::<_, RequestError>(row.get::<_, Option<i64>>(column)?.map(Timestamp));
    let text = |column| Ok::<_, RequestError>(row.get_ref(column)?.as_str()?);
    Ok(RunInfo {
        run: RunId::new(text(1)?)?,
        workflow: WorkflowName::new(text(2)?)?,
        version: Version::new(text(3)?)?,
        status: row::status(row, 4)?,
        queue: row::queue(row, 5)?,
        started_at: Timestamp(row.get(7)?),
        closed_at: time(8)?,
        cursor: row::count(row, 9)?,
        length: row::count(row, 10)?,
        key: row.get(11)?,
        parent: parent(row)?,
        attributes,
        next_timer: time(14)?,
        output: row::body(row, 15)?,
        error: row.get(16)?,
        last_commit: row::commit_id(row, 17)?,
    })
}

fn parent(row: &Row<'_>) -> Result<Option<ParentRef>, RequestError> {
    let Some(run) = row.get_ref(12)?.as_str_or_null()? else { return Ok(None) };
    Ok(Some(ParentRef { run: RunId::new(run)?, seq: row::count(row, 13)? }))
}

fn attributes(tx: &Tx<'_>, number: i64) -> Result<BTreeMap<Topic, Json>, RequestError> {
    let mut list = tx.connection.prepare_cached(LIST_ATTRIBUTES)?;
    let mut rows = list.query([number])?;
    let mut attributes = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let value = Json::from_text(row.get::<_, String>(1)?);
        let value =
            value.map_err(|error| Error::Corrupt(format!("an attribute is not valid JSON: {error}")))?;
        attributes.insert(Topic::new(row.get_ref(0)?.as_str()?)?, value);
    }
    Ok(attributes)
}
