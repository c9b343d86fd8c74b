//! `get_run`: reads one run.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidemill_core::store::runs::{ParentRef, RunInfo};
use tidemill_core::workflow::{CommitId, Json, RunId, Topic, Version, WorkflowName};
use tidemill_core::{Error, Timestamp};
use tokio_postgres::Row;

use super::{status_from_code, to_u64};
use crate::Inner;
use crate::jobs::{corrupt, queue};
use crate::sql::GET_RUN;

impl Inner {
    pub(crate) async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        let rows = self.pool.query(&GET_RUN, &[&run.as_str()]).await?;
        rows.first().map(info_from_row).transpose()
    }
}

pub(super) fn info_from_row(row: &Row) -> Result<RunInfo, Error> {
    let parent: Option<&str> = row.get("parent");
    let seq = to_u64(row.get::<_, Option<i64>>("parent_seq").unwrap_or(0));
    let parent = parent.map(|run| Ok::<_, Error>(ParentRef { run: RunId::new(run).map_err(corrupt)?, seq }));
    let error: Option<&[u8]> = row.get("error");
    Ok(RunInfo {
        run: RunId::new(row.get("id")).map_err(corrupt)?,
        workflow: WorkflowName::new(row.get("workflow")).map_err(corrupt)?,
        version: Version::new(row.get("version")).map_err(corrupt)?,
        status: status_from_code(row.get("status"))?,
        queue: queue(row.get("name"), row.get("delivery"))?,
        started_at: Timestamp(row.get("started")),
        closed_at: row.get::<_, Option<i64>>("closed").map(Timestamp),
        cursor: to_u64(row.get("cursor")),
        length: to_u64(row.get("length")),
        last_commit: row.get::<_, Option<i64>>("last_commit").map(|id| CommitId::from_number(to_u64(id))),
        key: row.get("key"),
        parent: parent.transpose()?,
        attributes: attributes_from_row(row)?,
        next_timer: row.get::<_, Option<i64>>("next_alarm").map(Timestamp),
        output: Bytes::copy_from_slice(row.get("output")),
        error: error.map(|text| String::from_utf8_lossy(text).into_owned()),
    })
}

fn attributes_from_row(row: &Row) -> Result<BTreeMap<Topic, Json>, Error> {
    let (names, values): (Vec<&str>, Vec<&[u8]>) = (row.get("attributes"), row.get("values"));
    let read = |(name, value): (&str, &[u8])| {
        let value = Json::from_text(String::from_utf8_lossy(value)).map_err(corrupt)?;
        Ok((Topic::new(name).map_err(corrupt)?, value))
    };
    names.into_iter().zip(values).map(read).collect()
}
