//! Adding jobs that are tied to others: they wait for chains, or are to be the only ones with their key.

use std::collections::HashMap;

use tidemill_core::chain::DedupScope;
use tidemill_core::store::{Enqueued, NewJob};
use tidemill_core::{Error, JobId, Queue};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::enqueue::Columns;
use super::receipt::Receipt;
use super::{job_id, ms};
use crate::Inner;
use crate::connection::Params;
use crate::sql::LINK;

/// What became of a job.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) answer: Enqueued,
    /// Whether it waits for chains, and no worker need hear of it yet.
    pub(crate) blocked: bool,
}

impl From<Enqueued> for Made {
    fn from(answer: Enqueued) -> Self {
        Self { answer, blocked: false }
    }
}

/// The parameters of `enqueue_jobs` beside the queue.
pub(crate) struct Linked<'a> {
    pub(crate) columns: Columns<'a>,
    pub(crate) keys: Vec<Option<&'a str>>,
    pub(crate) any_state: Vec<bool>,
    pub(crate) windows: Vec<Option<i64>>,
    pub(crate) waiters: Vec<i32>,
    pub(crate) chains: Vec<String>,
}

impl<'a> Linked<'a> {
    /// Checks what can be checked here and turns the jobs on their side.
    pub(crate) fn of(jobs: &'a [NewJob]) -> Result<Self, Error> {
        check_order(jobs)?;
        let dedup = || jobs.iter().map(|job| job.links.dedup.as_ref());
        let (waiters, chains) = links(jobs.iter().map(|job| job.links.after.as_slice()));
        let any_dedup = dedup().any(|dedup| dedup.is_some());
        Ok(Self {
            columns: Columns::of(jobs.iter()),
            // None at all, so that nobody looks for them.
            keys: dedup().filter(|_| any_dedup).map(|dedup| dedup.map(|dedup| dedup.key.as_str())).collect(),
            any_state: dedup()
                .map(|dedup| dedup.is_some_and(|dedup| dedup.scope == DedupScope::Any))
                .collect(),
            windows: dedup().map(|dedup| dedup.and_then(|dedup| dedup.within).map(ms)).collect(),
            waiters,
            chains,
        })
    }

    /// The parameters in their order, with their types.
    pub(crate) fn params<'b>(&'b self, queue: &'b i32) -> [(&'b (dyn ToSql + Sync), Type); 10] {
        let Columns { ids, delays, earliest, envelopes } = &self.columns;
        [
            (queue, Type::INT4),
            (ids, Type::TEXT_ARRAY),
            (delays, Type::INT8_ARRAY),
            (earliest, Type::INT8_ARRAY),
            (envelopes, Type::BYTEA_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.any_state, Type::BOOL_ARRAY),
            (&self.windows, Type::INT8_ARRAY),
            (&self.waiters, Type::INT4_ARRAY),
            (&self.chains, Type::TEXT_ARRAY),
        ]
    }
}

impl Inner {
    /// Adds jobs that are tied to others, all or none.
    pub(super) async fn link(
        &self,
        queue: &Queue,
        jobs: &[NewJob],
        receipt: &Receipt,
    ) -> Result<Vec<Made>, Error> {
        let linked = Linked::of(jobs)?;
        let number = self.number(queue).await?;
        let [a, b, c, d, e, f, g, h, i, j] = linked.params(&number).map(|(value, _)| value);
        let params: Params<'_> = &[a, b, c, d, e, f, g, h, i, j, &receipt.at, &receipt.call];
        match self.pool.attempt(&LINK, params).await? {
            Ok(rows) => rows.first().map_or_else(|| Err(nothing()), read_made),
            Err(error) => self.refused_receipt(LINK.name, error, (receipt, jobs)).await,
        }
    }
}

/// What `enqueue_jobs` has answered.
pub(crate) fn read_made(row: &Row) -> Result<Vec<Made>, Error> {
    made(&row.get::<_, Vec<i16>>("made"), &row.get::<_, Vec<Option<&str>>>("others"))
}

pub(crate) fn made(codes: &[i16], others: &[Option<&str>]) -> Result<Vec<Made>, Error> {
    let made = |(code, other): (&i16, &Option<&str>)| match (code, other) {
        (0, _) => Ok(Enqueued::Created.into()),
        (1, _) => Ok(Made { answer: Enqueued::Created, blocked: true }),
        (2, _) => Ok(Enqueued::Exists.into()),
        (3, Some(other)) => Ok(Enqueued::Duplicate(job_id(other)?).into()),
        (code, _) => Err(Error::Corrupt(format!("a job was enqueued with the answer {code}"))),
    };
    codes.iter().zip(others).map(made).collect()
}

pub(crate) fn nothing() -> Error {
    Error::Corrupt("the server answered nothing".into())
}

/// Which job waits for which chain: the first job is 1.
pub(crate) fn links<'a>(after: impl Iterator<Item = &'a [JobId]>) -> (Vec<i32>, Vec<String>) {
    let pairs = (1..).zip(after).flat_map(|(at, after)| after.iter().map(move |chain| (at, chain)));
    pairs.map(|(at, chain)| (at, chain.chain().to_string())).unzip()
}

/// A job may wait for one of its own batch only if that comes first: else two could wait for each other.
fn check_order(jobs: &[NewJob]) -> Result<(), Error> {
    let places: HashMap<&JobId, usize> = jobs.iter().enumerate().map(|(at, job)| (&job.id, at)).collect();
    for (at, job) in jobs.iter().enumerate() {
        let later = |chain: &&JobId| places.get(chain).is_some_and(|place| *place >= at);
        if let Some(chain) = job.links.after.iter().find(later) {
            return Err(Error::NotFound(format!("chain {chain}")));
        }
    }
    Ok(())
}
