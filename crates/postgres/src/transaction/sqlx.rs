//! The same for transactions of sqlx.

use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres, Row};
use tidemill_core::store::{CompleteParams, Completed, Enqueued, JobInfo, NewJob};
use tidemill_core::{Error, JobId, Queue};

use super::foreign::Pending;
use crate::PostgresStore;
use crate::error::classify_sqlx;
use crate::found::Found;
use crate::inspect::NAMED;
use crate::jobs::{Close, Closing, Columns, Follow, Linked, completed, made};
use crate::runs::Telling;

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
        let Linked { columns, keys, any_state, windows, waiters, chains } = Linked::of(jobs)?;
        let Columns { ids, delays, earliest, envelopes } = columns;
        let number = self.inner.number(queue).await?;
        self.inner.pool.count_one();
        let call = query(&self.inner.calls.enqueue)
            .bind(number)
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
        Ok(made(&codes, &others)?.into_iter().map(|made| made.answer).collect())
    }

    /// Like [`get_in`](Self::get_in), for a connection or transaction of sqlx.
    pub async fn get_in_sqlx(
        &self,
        connection: &mut PgConnection,
        job: &JobId,
    ) -> Result<Option<JobInfo>, Error> {
        self.inner.pool.count_one();
        let chain = job.chain();
        let call = query(&self.inner.calls.get).bind(chain.as_str()).bind(NAMED);
        let row = call.fetch_optional(connection).await.map_err(classify_sqlx)?;
        row.map(|row| Found::read_sqlx(&row).map_err(classify_sqlx)?.into_info()).transpose()
    }

    /// Like [`complete_in`](Self::complete_in), for a connection or transaction of sqlx.
    pub async fn complete_in_sqlx(
        &self,
        connection: &mut PgConnection,
        complete: CompleteParams<'_>,
    ) -> Result<(Completed, Pending), Error> {
        let closing = self.inner.closing(complete.change).await?;
        self.inner.pool.count_one();
        let call = query(self.inner.calls.complete(&closing)).bind(complete.job.as_str());
        let call = match closing {
            Closing::Close(Close { state, output, error, finished, keep }) => {
                call.bind(state).bind(output).bind(error).bind(finished).bind(keep)
            }
            Closing::Follow(Follow { queue, delay, earliest, envelope, after }) => {
                call.bind(queue).bind(delay).bind(earliest).bind(envelope).bind(after)
            }
            Closing::Tell(Telling { run, kind, entry, id, seq }) => {
                call.bind(run).bind(kind).bind(entry).bind(id).bind(seq)
            }
        };
        read(&call.fetch_one(connection).await.map_err(classify_sqlx)?)
    }
}

/// A statement that is not kept on the connection, which is not ours.
fn query(text: &str) -> Query<'_, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(text)).persistent(false)
}

fn read(row: &PgRow) -> Result<(Completed, Pending), Error> {
    let outcome: Option<&str> = row.try_get("outcome").map_err(classify_sqlx)?;
    Ok((completed(outcome)?, Pending(row.try_get("woken").map_err(classify_sqlx)?)))
}
