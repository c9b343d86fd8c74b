//! Pages of runs, newest first: by the index of start times, filtered by their states.

use std::str::FromStr;

use futures_util::future::try_join_all;
use redis::{Pipeline, Value};
use tidemill_core::Error;
use tidemill_core::store::Page;
use tidemill_core::store::runs::{ListRunsParams, RunInfo};
use tidemill_core::workflow::RunId;

use super::get_run::parse_next_timer;
use super::instance::Instance;
use crate::connection::reply::{array, bytes};
use crate::error::{classify, unexpected_reply};
use crate::store::RedisStore;

/// How many runs a page reads: enough to find matches, few enough not to block the server.
const MIN_SCANNED_RUNS: usize = 64;
const MAX_SCANNED_RUNS: usize = 1_000;

/// A position in the list: later start first, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RunListPosition {
    started: i64,
    run: String,
}

/// The next positions of one shard, and whether there may be more.
struct ShardRuns {
    positions: Vec<(RunListPosition, u16)>,
    more: bool,
}

impl FromStr for RunListPosition {
    type Err = Error;

    fn from_str(cursor: &str) -> Result<Self, Error> {
        let parts = cursor.split_once(' ');
        let position = parts
            .and_then(|(started, run)| Some(Self { started: started.parse().ok()?, run: run.to_owned() }));
        position.ok_or_else(|| Error::Invalid("invalid cursor".into()))
    }
}

impl RedisStore {
    pub(crate) async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        let after: Option<RunListPosition> = list.cursor.as_deref().map(str::parse).transpose()?;
        let page_size = list.limit.clamp(MIN_SCANNED_RUNS, MAX_SCANNED_RUNS);
        let shards = 0..self.keys.shards();
        let positions = |shard| self.positions_in_shard((shard, page_size), &list, after.as_ref());
        let parts = try_join_all(shards.map(positions)).await?;
        let mut more = parts.iter().any(|part| part.more);
        let mut positions: Vec<(RunListPosition, u16)> =
            parts.into_iter().flat_map(|part| part.positions).collect();
        positions.sort_by(|one, other| other.cmp(one));
        more |= positions.len() > page_size;
        positions.truncate(page_size);
        let mut page = Page { items: Vec::new(), next: None };
        let infos = self.run_infos(&positions).await?;
        for ((position, _), info) in positions.iter().zip(infos) {
            if page.items.len() == list.limit {
                return Ok(page);
            }
            page.items.extend(info.filter(|info| matches_filter(info, &list)));
            page.next = Some(format!("{} {}", position.started, position.run));
        }
        page.next = page.next.filter(|_| more);
        Ok(page)
    }

    /// The next positions of one shard. Many runs may have the same start time; earlier ones are
    /// skipped.
    async fn positions_in_shard(
        &self,
        (shard, page_size): (u16, usize),
        list: &ListRunsParams,
        after: Option<&RunListPosition>,
    ) -> Result<ShardRuns, Error> {
        let index = self.keys.runs(shard, list.workflow.as_ref());
        let latest = match (after, list.before) {
            (Some(after), _) => after.started.to_string(),
            (None, Some(before)) => format!("({}", before.0),
            (None, None) => "+inf".to_owned(),
        };
        let earliest = list.since.map_or_else(|| "-inf".to_owned(), |since| since.0.to_string());
        let mut skipped = 0;
        loop {
            let mut command = redis::cmd("ZREVRANGEBYSCORE");
            command
                .arg(&index)
                .arg(&latest)
                .arg(&earliest)
                .arg("WITHSCORES")
                .arg("LIMIT")
                .arg(skipped)
                .arg(page_size);
            let found: Vec<(String, f64)> = self.connections.query(shard, &command).await?;
            let is_last = found.len() < page_size;
            skipped += found.len();
            #[expect(clippy::cast_possible_truncation, reason = "times are whole milliseconds")]
            let positions =
                found.into_iter().map(|(run, started)| RunListPosition { started: started as i64, run });
            let next = positions.filter(|position| after.is_none_or(|after| position < after));
            let part =
                ShardRuns { positions: next.map(|position| (position, shard)).collect(), more: !is_last };
            if is_last || !part.positions.is_empty() {
                return Ok(part);
            }
        }
    }

    /// The runs at these positions; nothing where a run is gone or damaged.
    async fn run_infos(&self, positions: &[(RunListPosition, u16)]) -> Result<Vec<Option<RunInfo>>, Error> {
        let mut infos: Vec<Option<RunInfo>> = positions.iter().map(|_| None).collect();
        let parts = (0..self.keys.shards()).map(|shard| self.run_infos_in(shard, positions));
        for (index, info) in try_join_all(parts).await?.into_iter().flatten() {
            infos[index] = info;
        }
        Ok(infos)
    }

    async fn run_infos_in(
        &self,
        shard: u16,
        positions: &[(RunListPosition, u16)],
    ) -> Result<Vec<(usize, Option<RunInfo>)>, Error> {
        let here: Vec<(usize, RunId)> = (0..)
            .zip(positions)
            .filter(|(_, (_, at))| *at == shard)
            .filter_map(|(index, (position, _))| Some((index, RunId::new(&position.run).ok()?)))
            .collect();
        if here.is_empty() {
            return Ok(Vec::new());
        }
        let mut batch = Pipeline::with_capacity(here.len() + 1);
        batch.cmd("MGET").arg(here.iter().map(|(_, run)| self.keys.instance(shard, run)).collect::<Vec<_>>());
        for (_, run) in &here {
            batch.cmd("ZRANGE").arg(self.keys.run_timers(shard, run)).arg(0).arg(0).arg("WITHSCORES");
        }
        let replies =
            self.connections.pipeline(shard, &batch).await.map_err(|error| classify("runs", error))?;
        let mut replies = replies.into_iter();
        let states = replies.next().and_then(array).ok_or_else(|| unexpected_reply("MGET"))?;
        let found = here.into_iter().zip(states).zip(replies);
        Ok(found.map(|(((index, run), state), timer)| (index, info(&run, state, timer))).collect())
    }
}

/// The description of a run. A damaged one must not hide the others.
fn info(run: &RunId, state: Value, timer: Value) -> Option<RunInfo> {
    let read =
        Instance::parse(run, &bytes(state)?).and_then(|instance| instance.into_info(parse_next_timer(timer)));
    read.inspect_err(|error| tracing::warn!(%run, error = error.full_message(), "a run cannot be listed"))
        .ok()
}

fn matches_filter(info: &RunInfo, list: &ListRunsParams) -> bool {
    list.status.is_none_or(|status| info.status == status)
        && list.attribute.as_ref().is_none_or(|(name, value)| info.attributes.get(name) == Some(value))
}
