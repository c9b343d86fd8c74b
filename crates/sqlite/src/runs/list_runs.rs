//! `list_runs`: pages of runs, newest first.

use rusqlite::ToSql;
use tidemill_core::Error;
use tidemill_core::store::Page;
use tidemill_core::store::runs::{ListRunsParams, RunInfo};
use tidemill_core::workflow::RunStatus;

use super::get_run::read_info;
use crate::connection::Tx;
use crate::error::RequestError;
use crate::store::SqliteStore;

pub(crate) async fn list_runs(store: &SqliteStore, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
    let window = ListWindow::new(&list)?;
    store.read(move |tx| page(tx, &list, window)).await
}

/// A run's position in the list: when it was started, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ListPosition(i64, i64);

impl ListPosition {
    fn parse(cursor: &str) -> Result<Self, Error> {
        let position = cursor
            .split_once('.')
            .and_then(|(at, number)| Some(Self(at.parse().ok()?, number.parse().ok()?)));
        position.ok_or_else(|| {
            let shown: String = cursor.chars().take(64).collect();
            Error::Invalid(format!("{shown:?} is not a cursor of a list of runs"))
        })
    }
}

/// The part of the list from which a page is taken.
#[derive(Debug, Clone, Copy)]
struct ListWindow {
    /// Only runs that come later in the list than this position, so started earlier.
    below: ListPosition,
    /// Only runs that were started at this time or later.
    since: i64,
    limit: i64,
}

impl ListWindow {
    fn new(list: &ListRunsParams) -> Result<Self, Error> {
        let before = ListPosition(list.before.map_or(i64::MAX, |before| before.0), i64::MIN);
        let cursor = list.cursor.as_deref().map(ListPosition::parse).transpose()?;
        let below = cursor.map_or(before, |cursor| cursor.min(before));
        let limit = i64::try_from(list.limit).unwrap_or(i64::MAX);
        Ok(Self { below, since: list.since.map_or(i64::MIN, |since| since.0), limit })
    }
}

fn page(tx: &Tx<'_>, list: &ListRunsParams, window: ListWindow) -> Result<Page<RunInfo>, RequestError> {
    let positions = positions(tx, list, window)?;
    let mut page = Page::default();
    for ListPosition(_, number) in &positions {
        // A run that cannot be read is an error for `get_run` and does not hide the others here.
        page.items.extend(skip_corrupt(read_info(tx, *number))?.filter(|info| matches_filters(list, info)));
    }
    let full = positions.last().filter(|_| positions.len() == list.limit);
    page.next = full.map(|ListPosition(started, number)| format!("{started}.{number}"));
    Ok(page)
}

fn skip_corrupt(info: Result<Option<RunInfo>, RequestError>) -> Result<Option<RunInfo>, RequestError> {
    match info.map_err(Error::from) {
        Err(Error::Corrupt(_)) => Ok(None),
        info => Ok(info?),
    }
}

/// Applies the filters that the chosen index does not cover.
fn matches_filters(list: &ListRunsParams, info: &RunInfo) -> bool {
    list.workflow.as_ref().is_none_or(|workflow| *workflow == info.workflow)
        && list.status.is_none_or(|status| status == info.status)
}

/// The positions of the first runs in the window. [`matches_filters`] may still drop some.
fn positions(
    tx: &Tx<'_>,
    list: &ListRunsParams,
    window: ListWindow,
) -> Result<Vec<ListPosition>, RequestError> {
    if let Some((name, value)) = &list.attribute {
        let sql = sql!("runs/list_runs_by_attribute");
        return window.query(tx, sql, &[(":name", name.as_str()), (":value", value.as_str())]);
    }
    let mut positions = Vec::new();
    for status in RunStatus::ALL.into_iter().filter(|status| list.status.is_none_or(|only| only == *status)) {
        let status = (":status", status.as_str());
        positions.extend(match &list.workflow {
            None => window.query(tx, sql!("runs/list_runs"), &[status])?,
            Some(workflow) => {
                let key = [status, (":workflow", workflow.as_str())];
                window.query(tx, sql!("runs/list_runs_by_workflow"), &key)?
            }
        });
    }
    positions.sort_unstable_by(|one, other| other.cmp(one));
    positions.truncate(list.limit);
    Ok(positions)
}

impl ListWindow {
    /// Runs a list with the window and the further parameters in `key`.
    fn query(self, tx: &Tx<'_>, sql: &str, key: &[(&str, &str)]) -> Result<Vec<ListPosition>, RequestError> {
        let mut params: Vec<(&str, &dyn ToSql)> = vec![
            (":since", &self.since),
            (":below_started", &self.below.0),
            (":below_number", &self.below.1),
            (":limit", &self.limit),
        ];
        params.extend(key.iter().map(|(name, value)| (*name, value as &dyn ToSql)));
        let mut list = tx.connection.prepare_cached(sql)?;
        let positions = list.query_map(&params[..], |row| Ok(ListPosition(row.get(0)?, row.get(1)?)))?;
        Ok(positions.collect::<Result<_, _>>()?)
    }
}
