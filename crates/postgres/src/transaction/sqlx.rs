//! Verbs inside transactions of sqlx.

use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres, Row};
use tidemill_core::store::{CompleteParams, Completed, Enqueued, JobInfo, NewJob};
use tidemill_core::{Error, JobId, Queue};

use super::user_transaction::PendingWakes;
use crate::PostgresStore;
use crate::error::classify_sqlx;
use crate::inspect::MAX_NAMED_BLOCKERS;
use crate::jobs::{
    ContinueArgs, DependentColumns, EndArgs, FinishArgs, JobColumns, JobRow, completed_from_outcome, outcomes,
};
use crate::runs::EventArgs;

impl PostgresStore {
    /// Like [`enqueue_in`](Self::enqueue_in), for a connection or transaction of sqlx.
    pub async fn enqueue_in_sqlx(
        &self,
        connection: &mut PgConnection,
        queue: &Queue,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let DependentColumns { columns, keys, any_state, windows, waiters, chains } =
            DependentColumns::new(jobs)?;
        let JobColumns { ids, delays, earliest, envelopes } = columns;
        let queue_id = self.inner.queue_id(queue).await?;
        self.inner.pool.count_one();
        let call = query(&self.inner.calls.enqueue)
            .bind(queue_id)
            .bind(ids)
            .bind(delays)
            .bind(earliest)
            .bind(envelopes)
            .bind(keys)
            .bind(any_state)
            .bind(windows)
            .bind(waiters)
            .bind(chains);
        let row = call.fetch_one(connection).await.map_err(classify_sqlx)?;
        let codes: Vec<i16> = row.try_get("made").map_err(classify_sqlx)?;
        let others: Vec<Option<String>> = row.try_get("others").map_err(classify_sqlx)?;
        let others: Vec<Option<&str>> = others.iter().map(Option::as_deref).collect();
        Ok(outcomes(&codes, &others)?.into_iter().map(|outcome| outcome.result).collect())
    }

    /// Like [`get_in`](Self::get_in), for a connection or transaction of sqlx.
    pub async fn get_in_sqlx(
        &self,
        connection: &mut PgConnection,
        job: &JobId,
    ) -> Result<Option<JobInfo>, Error> {
        self.inner.pool.count_one();
        let chain = job.chain();
        let call = query(&self.inner.calls.get).bind(chain.as_str()).bind(MAX_NAMED_BLOCKERS);
        let row = call.fetch_optional(connection).await.map_err(classify_sqlx)?;
        row.map(|row| JobRow::from_sqlx_row(&row).map_err(classify_sqlx)?.into_info()).transpose()
    }

    /// Like [`complete_in`](Self::complete_in), for a connection or transaction of sqlx.
    pub async fn complete_in_sqlx(
        &self,
        connection: &mut PgConnection,
        complete: CompleteParams<'_>,
    ) -> Result<(Completed, PendingWakes), Error> {
        let end = self.inner.end_args(complete.change).await?;
        self.inner.pool.count_one();
        let call = query(self.inner.calls.complete(&end)).bind(complete.job.as_str());
        let call = match end {
            EndArgs::Finish(FinishArgs { state, output, error, finished, keep }) => {
                call.bind(state).bind(output).bind(error).bind(finished).bind(keep)
            }
            EndArgs::Continue(ContinueArgs { queue, delay, earliest, envelope, after }) => {
                call.bind(queue).bind(delay).bind(earliest).bind(envelope).bind(after)
            }
            EndArgs::Deliver(EventArgs { run, kind, entry, id, seq }) => {
                call.bind(run).bind(kind).bind(entry).bind(id).bind(seq)
            }
        };
        read(&call.fetch_one(connection).await.map_err(classify_sqlx)?)
    }
}

/// A statement that is not kept on the user's connection.
fn query(text: &str) -> Query<'_, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(text)).persistent(false)
}

fn read(row: &PgRow) -> Result<(Completed, PendingWakes), Error> {
    let outcome: Option<&str> = row.try_get("outcome").map_err(classify_sqlx)?;
    Ok((completed_from_outcome(outcome)?, PendingWakes(row.try_get("woken").map_err(classify_sqlx)?)))
}
