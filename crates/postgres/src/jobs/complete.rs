//! `complete`: ends jobs from outside, whatever their lease.

use tidemill_core::Error;
use tidemill_core::job::JobState;
use tidemill_core::settle::{Change, NextJob};
use tidemill_core::store::{CompleteParams, Completed, JobRecord, reserved_ids};
use tidemill_core::wake::Wake;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::enqueue::{delay_ms, earliest};
use super::enqueue_dependent::{chain_ids, no_rows};
use super::ms;
use crate::Inner;
use crate::runs::EventArgs;
use crate::sql::{COMPLETE, COMPLETE_BY_CONTINUING, COMPLETE_BY_DELIVERING};

/// Parameters of `complete_job` and `settle_job`: the end of a job, with a record or without.
pub(crate) struct FinishArgs<'a> {
    pub(crate) state: Option<i16>,
    pub(crate) output: &'a [u8],
    pub(crate) error: Option<&'a [u8]>,
    pub(crate) finished: i64,
    pub(crate) keep: i64,
}

/// Parameters of `complete_by_continuing` and `continue_job`: the next job of a chain.
pub(crate) struct ContinueArgs<'a> {
    pub(crate) queue: i32,
    pub(crate) delay: i64,
    pub(crate) earliest: i64,
    pub(crate) envelope: &'a [u8],
    pub(crate) after: Vec<String>,
}

/// The parameters of a function that ends one job.
pub(crate) enum EndArgs<'a> {
    Finish(FinishArgs<'a>),
    Continue(ContinueArgs<'a>),
    Deliver(EventArgs<'a>),
}

impl<'a> FinishArgs<'a> {
    pub(crate) fn new(record: Option<&'a JobRecord>) -> Self {
        Self {
            state: record.map(|record| state_code(record.state)),
            output: record.map_or(&[], |record| &record.output),
            error: record.and_then(|record| record.error.as_deref()).map(str::as_bytes),
            finished: record.map_or(0, |record| record.finished_at.0),
            keep: record.map_or(0, |record| ms(record.keep)),
        }
    }

    fn params(&self) -> [(&(dyn ToSql + Sync), Type); 5] {
        [
            (&self.state, Type::INT2),
            (&self.output, Type::BYTEA),
            (&self.error, Type::BYTEA),
            (&self.finished, Type::INT8),
            (&self.keep, Type::INT8),
        ]
    }
}

impl<'a> ContinueArgs<'a> {
    pub(crate) fn new(queue: i32, step: &'a NextJob) -> Self {
        let (delay, earliest) = (delay_ms(step.job.due), earliest(step.job.due));
        let after = chain_ids(&step.job.links.after);
        Self { queue, delay, earliest, envelope: &step.job.envelope, after }
    }

    fn params(&self) -> [(&(dyn ToSql + Sync), Type); 5] {
        [
            (&self.queue, Type::INT4),
            (&self.delay, Type::INT8),
            (&self.earliest, Type::INT8),
            (&self.envelope, Type::BYTEA),
            (&self.after, Type::TEXT_ARRAY),
        ]
    }
}

impl EndArgs<'_> {
    /// All parameters except those that identify the job.
    pub(crate) fn params(&self) -> [(&(dyn ToSql + Sync), Type); 5] {
        match self {
            Self::Finish(finish) => finish.params(),
            Self::Continue(next) => next.params(),
            Self::Deliver(event) => event.params(),
        }
    }
}

impl Inner {
    /// Ends a job from outside and announces it.
    pub(crate) async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        reserved_ids::check_removal(complete.job)?;
        let end = self.end_args(complete.change).await?;
        let sql = match &end {
            EndArgs::Finish(_) => &COMPLETE,
            EndArgs::Continue(_) => &COMPLETE_BY_CONTINUING,
            EndArgs::Deliver(_) => &COMPLETE_BY_DELIVERING,
        };
        let job = complete.job.as_str();
        let [a, b, c, d, e] = end.params().map(|(value, _)| value);
        let rows = self.pool.query(sql, &[&job, a, b, c, d, e]).await?;
        let row = rows.first().ok_or_else(no_rows)?;
        self.announce_texts(wake_texts(row)).await;
        let completed = completed_from_outcome(row.get("outcome"))?;
        if completed != Completed::Yes {
            // This may be the retry of a call that ended it.
            self.bus.publish(Wake::Finished(complete.job.chain()));
            self.bus.publish(Wake::LeaseLost(complete.job.clone()));
        }
        // The caller is often a command that exits at once, so this waits until the wake-ups are
        // sent.
        self.bus.flush().await;
        Ok(completed)
    }

    /// The parameters of the functions that end one job. A change that puts the job back or buries
    /// it is invalid here.
    pub(crate) async fn end_args<'a>(&self, change: &'a Change) -> Result<EndArgs<'a>, Error> {
        match change {
            Change::Finish(record) => Ok(EndArgs::Finish(FinishArgs::new(record.as_ref()))),
            Change::Continue(step) => {
                Ok(EndArgs::Continue(ContinueArgs::new(self.queue_id(&step.queue).await?, step)))
            }
            Change::Deliver(delivery) => Ok(EndArgs::Deliver(EventArgs::new(delivery))),
            Change::Requeue { .. } | Change::Bury(_) | Change::Commit(_) => {
                Err(Error::Invalid("a job can be completed only by ending or continuing it".into()))
            }
        }
    }
}

/// The texts of the wake-ups that a function returns.
pub(crate) fn wake_texts(row: &Row) -> Vec<String> {
    row.get::<_, Option<Vec<String>>>("woken").unwrap_or_default()
}

/// The result of a completion.
pub(crate) fn completed_from_outcome(outcome: Option<&str>) -> Result<Completed, Error> {
    Ok(match outcome {
        None => Completed::NotFound,
        Some("seized") => Completed::Yes,
        Some("2") => Completed::Ended(JobState::Dead),
        Some("3") => Completed::Ended(JobState::Done),
        Some("4") => Completed::Ended(JobState::Cancelled),
        Some(other) => return Err(Error::Corrupt(format!("a job was completed with the answer {other:?}"))),
    })
}

/// How the state of a record is stored.
pub(crate) fn state_code(state: JobState) -> i16 {
    if state == JobState::Cancelled { 4 } else { 3 }
}
