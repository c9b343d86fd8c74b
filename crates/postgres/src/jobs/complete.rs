//! Ending jobs from outside, whatever their lease.

use tidemill_core::Error;
use tidemill_core::job::JobState;
use tidemill_core::settle::{Change, NextJob};
use tidemill_core::store::{CompleteParams, Completed, JobRecord, reserved_ids};
use tidemill_core::wake::Wake;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::enqueue::{delay, earliest};
use super::link::{links, nothing};
use super::ms;
use crate::Inner;
use crate::runs::Telling;
use crate::sql::{COMPLETE, COMPLETE_BY_CONTINUING, COMPLETE_BY_DELIVERING};

/// How a job ends that keeps a record or none: parameters of `complete_job` and `settle_job`.
pub(crate) struct Close<'a> {
    pub(crate) state: Option<i16>,
    pub(crate) output: &'a [u8],
    pub(crate) error: Option<&'a [u8]>,
    pub(crate) finished: i64,
    pub(crate) keep: i64,
}

/// The step that takes a job's place: parameters of `complete_by_continuing` and `continue_job`.
pub(crate) struct Follow<'a> {
    pub(crate) queue: i32,
    pub(crate) delay: i64,
    pub(crate) earliest: i64,
    pub(crate) envelope: &'a [u8],
    pub(crate) after: Vec<String>,
}

/// How a job ends for good, or goes on.
pub(crate) enum Closing<'a> {
    Close(Close<'a>),
    Follow(Follow<'a>),
    Tell(Telling<'a>),
}

impl<'a> Close<'a> {
    pub(crate) fn of(record: Option<&'a JobRecord>) -> Self {
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

impl<'a> Follow<'a> {
    pub(crate) fn of(queue: i32, step: &'a NextJob) -> Self {
        let (_, after) = links(std::iter::once(step.job.links.after.as_slice()));
        let (delay, earliest) = (delay(step.job.due), earliest(step.job.due));
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

impl Closing<'_> {
    /// Everything but what says which job it is.
    pub(crate) fn params(&self) -> [(&(dyn ToSql + Sync), Type); 5] {
        match self {
            Self::Close(close) => close.params(),
            Self::Follow(follow) => follow.params(),
            Self::Tell(telling) => telling.params(),
        }
    }
}

impl Inner {
    /// Ends a job from outside and announces it.
    pub(crate) async fn complete(&self, complete: CompleteParams<'_>) -> Result<Completed, Error> {
        reserved_ids::check_removal(complete.job)?;
        let closing = self.closing(complete.change).await?;
        let sql = match &closing {
            Closing::Close(_) => &COMPLETE,
            Closing::Follow(_) => &COMPLETE_BY_CONTINUING,
            Closing::Tell(_) => &COMPLETE_BY_DELIVERING,
        };
        let job = complete.job.as_str();
        let [a, b, c, d, e] = closing.params().map(|(value, _)| value);
        let rows = self.pool.query(sql, &[&job, a, b, c, d, e]).await?;
        let row = rows.first().ok_or_else(nothing)?;
        self.announce_woken(woken(row)).await;
        let completed = completed(row.get("outcome"))?;
        if completed != Completed::Yes {
            // The call that ended it may have been this one, and its answer lost.
            self.bus.publish(Wake::Finished(complete.job.chain()));
            self.bus.publish(Wake::LeaseLost(complete.job.clone()));
        }
        // Whoever completes is often a command that ends at once, so this waits until it is said.
        self.bus.flush().await;
        Ok(completed)
    }

    /// What a change is to the functions that end one job. Those that put it back or bury it end nothing.
    pub(crate) async fn closing<'a>(&self, change: &'a Change) -> Result<Closing<'a>, Error> {
        match change {
            Change::Finish(record) => Ok(Closing::Close(Close::of(record.as_ref()))),
            Change::Continue(step) => Ok(Closing::Follow(Follow::of(self.number(&step.queue).await?, step))),
            Change::Deliver(delivery) => Ok(Closing::Tell(Telling::of(delivery))),
            Change::Requeue { .. } | Change::Bury(_) | Change::Commit(_) => {
                Err(Error::Invalid("a job can be completed only by ending or continuing it".into()))
            }
        }
    }
}

/// What a function has to announce.
pub(crate) fn woken(row: &Row) -> Vec<String> {
    row.get::<_, Option<Vec<String>>>("woken").unwrap_or_default()
}

/// What completing did.
pub(crate) fn completed(outcome: Option<&str>) -> Result<Completed, Error> {
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
