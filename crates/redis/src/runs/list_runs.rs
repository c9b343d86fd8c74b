//! Pages of runs, newest first: by an index of when they were started, and by what is in their states.

use std::str::FromStr;

use futures_util::future::try_join_all;
use redis::{Pipeline, Value};
use tidemill_core::Error;
use tidemill_core::store::Page;
use tidemill_core::store::runs::{ListRunsParams, RunInfo};
use tidemill_core::workflow::RunId;

use super::get_run::next_alarm;
use super::instance::Instance;
use crate::connection::reply::{array, bytes};
use crate::error::{classify, odd_answer};
use crate::store::RedisStore;

/// How many runs a page looks at: enough to find some by a filter, few enough not to keep the server busy.
const FEWEST: usize = 64;
const MOST: usize = 1_000;

/// A place in the list: later start first, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    started: i64,
    run: String,
}

/// The next places of one shard, and whether there may be more.
struct Part {
    spots: Vec<(Spot, u16)>,
    more: bool,
}

impl FromStr for Spot {
    type Err = Error;

    fn from_str(cursor: &str) -> Result<Self, Error> {
        let parts = cursor.split_once(' ');
        let spot = parts
            .and_then(|(started, run)| Some(Self { started: started.parse().ok()?, run: run.to_owned() }));
        spot.ok_or_else(|| Error::Invalid("not a cursor of ours".into()))
    }
}

impl RedisStore {
    pub(crate) async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        let after: Option<Spot> = list.cursor.as_deref().map(str::parse).transpose()?;
        let width = list.limit.clamp(FEWEST, MOST);
        let shards = 0..self.keys.shards();
        let spots = |shard| self.spots((shard, width), &list, after.as_ref());
        let parts = try_join_all(shards.map(spots)).await?;
        let mut more = parts.iter().any(|part| part.more);
        let mut spots: Vec<(Spot, u16)> = parts.into_iter().flat_map(|part| part.spots).collect();
        spots.sort_by(|one, other| other.cmp(one));
        more |= spots.len() > width;
        spots.truncate(width);
        let mut page = Page { items: Vec::new(), next: None };
        let infos = self.infos(&spots).await?;
        for ((spot, _), info) in spots.iter().zip(infos) {
            if page.items.len() == list.limit {
                return Ok(page);
            }
            page.items.extend(info.filter(|info| fits(info, &list)));
            page.next = Some(format!("{} {}", spot.started, spot.run));
        }
        page.next = page.next.filter(|_| more);
        Ok(page)
    }

    /// The next places of one shard. Many runs may have been started in one moment; those before `after` are skipped.
    async fn spots(
        &self,
        (shard, width): (u16, usize),
        list: &ListRunsParams,
        after: Option<&Spot>,
    ) -> Result<Part, Error> {
        let index = self.keys.runs(shard, list.workflow.as_ref());
        let latest = match (after, list.before) {
            (Some(after), _) => after.started.to_string(),
            (None, Some(before)) => format!("({}", before.0),
            (None, None) => "+inf".to_owned(),
        };
        let earliest = list.since.map_or_else(|| "-inf".to_owned(), |since| since.0.to_string());
        let mut skipped = 0;
        loop {
            let mut ask = redis::cmd("ZREVRANGEBYSCORE");
            ask.arg(&index)
                .arg(&latest)
                .arg(&earliest)
                .arg("WITHSCORES")
                .arg("LIMIT")
                .arg(skipped)
                .arg(width);
            let found: Vec<(String, f64)> = self.link.query(shard, &ask).await?;
            let is_last = found.len() < width;
            skipped += found.len();
            #[expect(clippy::cast_possible_truncation, reason = "times are whole milliseconds")]
            let spots = found.into_iter().map(|(run, started)| Spot { started: started as i64, run });
            let next = spots.filter(|spot| after.is_none_or(|after| spot < after));
            let part = Part { spots: next.map(|spot| (spot, shard)).collect(), more: !is_last };
            if is_last || !part.spots.is_empty() {
                return Ok(part);
            }
        }
    }

    /// What there is at these places; nothing where a run is gone, or cannot be read.
    async fn infos(&self, spots: &[(Spot, u16)]) -> Result<Vec<Option<RunInfo>>, Error> {
        let mut infos: Vec<Option<RunInfo>> = spots.iter().map(|_| None).collect();
        let parts = (0..self.keys.shards()).map(|shard| self.infos_in(shard, spots));
        for (position, info) in try_join_all(parts).await?.into_iter().flatten() {
            infos[position] = info;
        }
        Ok(infos)
    }

    async fn infos_in(
        &self,
        shard: u16,
        spots: &[(Spot, u16)],
    ) -> Result<Vec<(usize, Option<RunInfo>)>, Error> {
        let here: Vec<(usize, RunId)> = (0..)
            .zip(spots)
            .filter(|(_, (_, at))| *at == shard)
            .filter_map(|(position, (spot, _))| Some((position, RunId::new(&spot.run).ok()?)))
            .collect();
        if here.is_empty() {
            return Ok(Vec::new());
        }
        let mut batch = Pipeline::with_capacity(here.len() + 1);
        batch.cmd("MGET").arg(here.iter().map(|(_, run)| self.keys.instance(shard, run)).collect::<Vec<_>>());
        for (_, run) in &here {
            batch.cmd("ZRANGE").arg(self.keys.alarms(shard, run)).arg(0).arg(0).arg("WITHSCORES");
        }
        let answer = self.link.pipeline(shard, &batch).await.map_err(|error| classify("runs", error))?;
        let mut answer = answer.into_iter();
        let states = answer.next().and_then(array).ok_or_else(|| odd_answer("MGET"))?;
        let found = here.into_iter().zip(states).zip(answer);
        Ok(found.map(|(((position, run), state), alarm)| (position, info(&run, state, alarm))).collect())
    }
}

/// A run as it is. One whose state is damaged must not hide the others.
fn info(run: &RunId, state: Value, alarm: Value) -> Option<RunInfo> {
    let read = Instance::read(run, &bytes(state)?).and_then(|instance| instance.info(next_alarm(alarm)));
    read.inspect_err(|error| tracing::warn!(%run, error = error.full_message(), "a run cannot be listed"))
        .ok()
}

fn fits(info: &RunInfo, list: &ListRunsParams) -> bool {
    list.status.is_none_or(|status| info.status == status)
        && list.attribute.as_ref().is_none_or(|(name, value)| info.attributes.get(name) == Some(value))
}
