//! Pages of runs, newest first.

use rusqlite::params_from_iter;
use rusqlite::types::Value;
use tidemill_core::Error;
use tidemill_core::store::Page;
use tidemill_core::store::runs::{ListRunsParams, RunInfo};
use tidemill_core::workflow::RunStatus;

use super::inspect::info;
use crate::call::Tx;
use crate::error::Failure;
use crate::store::SqliteStore;

pub(crate) async fn list(store: &SqliteStore, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
    let window = Window::of(&list)?;
    store.read(move |tx| page(tx, &list, window)).await
}

/// A run's place in the list: when it was started, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(i64, i64);

impl Place {
    fn read(cursor: &str) -> Result<Self, Error> {
        let place = cursor
            .split_once('.')
            .and_then(|(at, number)| Some(Self(at.parse().ok()?, number.parse().ok()?)));
        place.ok_or_else(|| {
            let shown: String = cursor.chars().take(64).collect();
            Error::Invalid(format!("{shown:?} is no place in a list of runs"))
        })
    }
}

/// The part of the list that a page is taken from the top of.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Nothing at this place or above.
    below: Place,
    /// Nothing that was started earlier.
    since: i64,
    limit: i64,
}

impl Window {
    fn of(list: &ListRunsParams) -> Result<Self, Error> {
        let before = Place(list.before.map_or(i64::MAX, |before| before.0), i64::MIN);
        let cursor = list.cursor.as_deref().map(Place::read).transpose()?;
        let below = cursor.map_or(before, |cursor| cursor.min(before));
        let limit = i64::try_from(list.limit).unwrap_or(i64::MAX);
        Ok(Self { below, since: list.since.map_or(i64::MIN, |since| since.0), limit })
    }
}

fn page(tx: &Tx<'_>, list: &ListRunsParams, window: Window) -> Result<Page<RunInfo>, Failure> {
    let places = places(tx, list, window)?;
    let mut page = Page::default();
    for Place(_, number) in &places {
        // One that cannot be read is told to whoever asks for it, and does not hide the others.
        page.items.extend(sound(info(tx, *number))?.filter(|info| fits(list, info)));
    }
    let full = places.last().filter(|_| places.len() == list.limit);
    page.next = full.map(|Place(started, number)| format!("{started}.{number}"));
    Ok(page)
}

fn sound(info: Result<Option<RunInfo>, Failure>) -> Result<Option<RunInfo>, Failure> {
    match info.map_err(Error::from) {
        Err(Error::Corrupt(_)) => Ok(None),
        info => Ok(info?),
    }
}

/// What an index could not look for at the same time.
fn fits(list: &ListRunsParams, info: &RunInfo) -> bool {
    list.workflow.as_ref().is_none_or(|workflow| *workflow == info.workflow)
        && list.status.is_none_or(|status| status == info.status)
}

/// The places of the first runs in the window: exact, but for what [`fits`] has to look at.
fn places(tx: &Tx<'_>, list: &ListRunsParams, window: Window) -> Result<Vec<Place>, Failure> {
    if let Some((name, value)) = &list.attribute {
        let sql = include_str!("../../sql/runs/list_with.sql");
        return window.look(tx, sql, &[name.as_str(), value.as_str()]);
    }
    let mut places = Vec::new();
    for status in RunStatus::ALL.into_iter().filter(|status| list.status.is_none_or(|only| only == *status)) {
        let key = [Some(status.as_str()), list.workflow.as_ref().map(|workflow| workflow.as_str())];
        let key: Vec<_> = key.into_iter().flatten().collect();
        let sql = match list.workflow {
            None => include_str!("../../sql/runs/list.sql"),
            Some(_) => include_str!("../../sql/runs/list_of.sql"),
        };
        places.extend(window.look(tx, sql, &key)?);
    }
    places.sort_unstable_by(|one, other| other.cmp(one));
    places.truncate(list.limit);
    Ok(places)
}

impl Window {
    fn look(self, tx: &Tx<'_>, sql: &str, key: &[&str]) -> Result<Vec<Place>, Failure> {
        let Self { below, since, limit } = self;
        let mut look = tx.connection.prepare_cached(sql)?;
        let window = [since, below.0, below.1, limit].map(Value::from);
        let key = key.iter().map(|word| Value::from((*word).to_owned()));
        let places = look.query_map(params_from_iter(window.into_iter().chain(key)), |row| {
            Ok(Place(row.get(0)?, row.get(1)?))
        })?;
        Ok(places.collect::<Result<_, _>>()?)
    }
}
