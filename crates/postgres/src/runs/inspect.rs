//! Looking at runs and journals.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidemill_core::store::Page;
use tidemill_core::store::runs::{ListRunsParams, ParentRef, ReadJournalParams, RunInfo, StoredEntry};
use tidemill_core::workflow::{CommitId, Json, RunId, Topic, Version, WorkflowName};
use tidemill_core::{Error, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{big, count, kind_of, status_code, status_of};
use crate::Inner;
use crate::jobs::{damaged, queue};
use crate::sql::{GET_RUN, JOURNAL, LIST_RUNS};

/// How many runs one page looks at, if some of them may not be wanted.
const SCAN: usize = 1_000;

impl Inner {
    pub(crate) async fn journal(
        &self,
        read: ReadJournalParams<'_>,
    ) -> Result<Vec<(u64, StoredEntry)>, Error> {
        let (run, from) = (read.run.as_str(), big(read.from));
        let limit = i64::try_from(read.limit).unwrap_or(i64::MAX);
        let bytes = i64::try_from(read.bytes.max(1)).unwrap_or(i64::MAX);
        let rows = self.pool.query(&JOURNAL, &[&run, &from, &limit, &bytes]).await?;
        rows.iter().map(read_entry).collect()
    }

    pub(crate) async fn run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        let rows = self.pool.query(&GET_RUN, &[&run.as_str()]).await?;
        rows.first().map(read_run).transpose()
    }

    pub(crate) async fn runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        let limit = list.limit.max(1);
        let before = list.before.map_or(i64::MAX, |time| time.0);
        let (place, id) = match list.cursor.as_deref() {
            Some(text) => read_cursor(text)?,
            // No id comes before this one, so the end of the time is not part of it.
            None => (before, ""),
        };
        let workflow = list.workflow.as_ref().map(WorkflowName::as_str);
        let status = list.status.map(status_code);
        let since = list.since.map_or(i64::MIN, |time| time.0);
        let attribute = list.attribute.as_ref().map(|(name, _)| name.as_str());
        let value = list.attribute.as_ref().map(|(_, value)| value.as_str().as_bytes());
        let picky = attribute.is_some() || workflow.is_some() || status.is_some();
        let scan = if picky { limit.max(SCAN) } else { limit };
        let (most, scan) = (big(limit as u64), big(scan as u64));
        let params: [&(dyn ToSql + Sync); 9] =
            [&workflow, &status, &since, &attribute, &value, &place, &id, &most, &scan];
        let rows = self.pool.query(&LIST_RUNS, &params).await?;
        let items = rows.iter().filter(|row| row.get::<_, Option<&str>>("id").is_some()).map(read_run);
        let next =
            rows.first().and_then(|row| row.get::<_, Option<&str>>("last_id").zip(row.get("last_started")));
        let next = next.map(|(id, started): (&str, i64)| format!("{started}.{id}"));
        Ok(Page { items: items.collect::<Result<_, _>>()?, next })
    }
}

fn read_cursor(text: &str) -> Result<(i64, &str), Error> {
    let parts = text.split_once('.').and_then(|(place, id)| Some((place.parse().ok()?, id)));
    parts.ok_or_else(|| Error::Invalid("the cursor is not one that a page ended with".into()))
}

fn read_entry(row: &Row) -> Result<(u64, StoredEntry), Error> {
    let entry = Bytes::copy_from_slice(row.get("entry"));
    Ok((count(row.get("position")), StoredEntry { kind: kind_of(row.get("kind"))?, bytes: entry }))
}

fn read_run(row: &Row) -> Result<RunInfo, Error> {
    let parent: Option<&str> = row.get("parent");
    let seq = count(row.get::<_, Option<i64>>("parent_seq").unwrap_or(0));
    let parent = parent.map(|run| Ok::<_, Error>(ParentRef { run: RunId::new(run).map_err(damaged)?, seq }));
    let error: Option<&[u8]> = row.get("error");
    Ok(RunInfo {
        run: RunId::new(row.get("id")).map_err(damaged)?,
        workflow: WorkflowName::new(row.get("workflow")).map_err(damaged)?,
        version: Version::new(row.get("version")).map_err(damaged)?,
        status: status_of(row.get("status"))?,
        queue: queue(row.get("name"), row.get("delivery"))?,
        started_at: Timestamp(row.get("started")),
        closed_at: row.get::<_, Option<i64>>("closed").map(Timestamp),
        cursor: count(row.get("cursor")),
        length: count(row.get("length")),
        last_commit: row.get::<_, Option<i64>>("last_commit").map(|id| CommitId::from_number(count(id))),
        key: row.get("key"),
        parent: parent.transpose()?,
        attributes: read_attributes(row)?,
        next_timer: row.get::<_, Option<i64>>("next_alarm").map(Timestamp),
        output: Bytes::copy_from_slice(row.get("output")),
        error: error.map(|text| String::from_utf8_lossy(text).into_owned()),
    })
}

fn read_attributes(row: &Row) -> Result<BTreeMap<Topic, Json>, Error> {
    let (names, values): (Vec<&str>, Vec<&[u8]>) = (row.get("attributes"), row.get("values"));
    let read = |(name, value): (&str, &[u8])| {
        let value = Json::from_text(String::from_utf8_lossy(value)).map_err(damaged)?;
        Ok((Topic::new(name).map_err(damaged)?, value))
    };
    names.into_iter().zip(values).map(read).collect()
}
