//! `list_runs`: pages of runs, newest first.

use tidemill_core::Error;
use tidemill_core::store::Page;
use tidemill_core::store::runs::{ListRunsParams, RunInfo};
use tidemill_core::workflow::WorkflowName;
use tokio_postgres::types::ToSql;

use super::get_run::info_from_row;
use super::{status_code, to_i64};
use crate::Inner;
use crate::sql::LIST_RUNS;

impl Inner {
    pub(crate) async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        let limit = list.limit.max(1);
        let before = list.before.map_or(i64::MAX, |time| time.0);
        let (started, id) = match list.cursor.as_deref() {
            Some(text) => parse_cursor(text)?,
            // No id sorts before the empty one, so runs started at `before` itself are excluded.
            None => (before, ""),
        };
        let workflow = list.workflow.as_ref().map(WorkflowName::as_str);
        let status = list.status.map(status_code);
        let since = list.since.map_or(i64::MIN, |time| time.0);
        let attribute = list.attribute.as_ref().map(|(name, _)| name.as_str());
        let value = list.attribute.as_ref().map(|(_, value)| value.as_str().as_bytes());
        let max = to_i64(limit as u64);
        let params: [&(dyn ToSql + Sync); 8] =
            [&workflow, &status, &since, &attribute, &value, &started, &id, &max];
        let rows = self.pool.query(&LIST_RUNS, &params).await?;
        let items = rows.iter().filter(|row| row.get::<_, Option<&str>>("id").is_some()).map(info_from_row);
        let next =
            rows.first().and_then(|row| row.get::<_, Option<&str>>("last_id").zip(row.get("last_started")));
        let next = next.map(|(id, started): (&str, i64)| format!("{started}.{id}"));
        Ok(Page { items: items.collect::<Result<_, _>>()?, next })
    }
}

fn parse_cursor(text: &str) -> Result<(i64, &str), Error> {
    let parts = text.split_once('.').and_then(|(started, id)| Some((started.parse().ok()?, id)));
    parts.ok_or_else(|| Error::Invalid("the cursor is not the end of a page".into()))
}
