//! Enqueue of dependent jobs: they wait for chains, or have a dedup key.

use std::collections::HashMap;

use tidemill_core::chain::DedupScope;
use tidemill_core::store::{Enqueued, NewJob};
use tidemill_core::{Error, JobId, Queue};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::enqueue::JobColumns;
use super::receipt::Receipt;
use super::{job_id, ms};
use crate::Inner;
use crate::connection::Params;
use crate::sql::ENQUEUE_DEPENDENT;

/// The outcome of an enqueue for one job.
#[derive(Debug, Clone)]
pub(crate) struct EnqueueOutcome {
    pub(crate) result: Enqueued,
    /// Whether it waits for chains, so that no worker needs a wake-up yet.
    pub(crate) blocked: bool,
}

impl From<Enqueued> for EnqueueOutcome {
    fn from(result: Enqueued) -> Self {
        Self { result, blocked: false }
    }
}

/// The parameters of `enqueue_jobs`, except the queue.
pub(crate) struct DependentColumns<'a> {
    pub(crate) columns: JobColumns<'a>,
    pub(crate) keys: Vec<Option<&'a str>>,
    pub(crate) any_state: Vec<bool>,
    pub(crate) windows: Vec<Option<i64>>,
    pub(crate) waiters: Vec<i32>,
    pub(crate) chains: Vec<String>,
}

impl<'a> DependentColumns<'a> {
    /// Checks the order of the jobs and converts them to columns.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Result<Self, Error> {
        check_order(jobs)?;
        let dedup = || jobs.iter().map(|job| job.links.dedup.as_ref());
        let (waiters, chains) = blocker_pairs(jobs);
        let any_dedup = dedup().any(|dedup| dedup.is_some());
        Ok(Self {
            columns: JobColumns::new(jobs.iter()),
            // Empty if no job has a key, so that the function does not look for any.
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
        let JobColumns { ids, delays, earliest, envelopes } = &self.columns;
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
    /// Adds dependent jobs, all or none.
    pub(super) async fn enqueue_dependent(
        &self,
        queue: &Queue,
        jobs: &[NewJob],
        receipt: &Receipt,
    ) -> Result<Vec<EnqueueOutcome>, Error> {
        let columns = DependentColumns::new(jobs)?;
        let queue_id = self.queue_id(queue).await?;
        let [a, b, c, d, e, f, g, h, i, j] = columns.params(&queue_id).map(|(value, _)| value);
        let params: Params<'_> = &[a, b, c, d, e, f, g, h, i, j, &receipt.at, &receipt.call];
        match self.pool.attempt(&ENQUEUE_DEPENDENT, params).await? {
            Ok(rows) => rows.first().map_or_else(|| Err(no_rows()), outcomes_from_row),
            Err(error) => self.find_receipt_after(ENQUEUE_DEPENDENT.name, error, receipt, jobs).await,
        }
    }
}

/// The outcomes that `enqueue_jobs` has returned.
pub(crate) fn outcomes_from_row(row: &Row) -> Result<Vec<EnqueueOutcome>, Error> {
    outcomes(&row.get::<_, Vec<i16>>("made"), &row.get::<_, Vec<Option<&str>>>("others"))
}

pub(crate) fn outcomes(codes: &[i16], others: &[Option<&str>]) -> Result<Vec<EnqueueOutcome>, Error> {
    let outcome = |(code, other): (&i16, &Option<&str>)| match (code, other) {
        (0, _) => Ok(Enqueued::Created.into()),
        (1, _) => Ok(EnqueueOutcome { result: Enqueued::Created, blocked: true }),
        (2, _) => Ok(Enqueued::Exists.into()),
        (3, Some(other)) => Ok(Enqueued::Duplicate(job_id(other)?).into()),
        (code, _) => Err(Error::Corrupt(format!("a job was enqueued with the answer {code}"))),
    };
    codes.iter().zip(others).map(outcome).collect()
}

pub(crate) fn no_rows() -> Error {
    Error::Corrupt("the server returned no rows".into())
}

/// Pairs of a job's index, from 1, and a chain that it waits for.
fn blocker_pairs(jobs: &[NewJob]) -> (Vec<i32>, Vec<String>) {
    let pairs =
        (1..).zip(jobs).flat_map(|(at, job)| chain_ids(&job.links.after).into_iter().map(move |id| (at, id)));
    pairs.unzip()
}

/// The chains of these jobs.
pub(crate) fn chain_ids(jobs: &[JobId]) -> Vec<String> {
    jobs.iter().map(|job| job.chain().to_string()).collect()
}

/// A job may wait for an earlier job of its own batch only. Otherwise two could wait for each
/// other.
fn check_order(jobs: &[NewJob]) -> Result<(), Error> {
    let indexes: HashMap<&JobId, usize> = jobs.iter().enumerate().map(|(at, job)| (&job.id, at)).collect();
    for (at, job) in jobs.iter().enumerate() {
        let later = |chain: &&JobId| indexes.get(chain).is_some_and(|index| *index >= at);
        if let Some(chain) = job.links.after.iter().find(later) {
            return Err(Error::NotFound(format!("chain {chain}")));
        }
    }
    Ok(())
}
