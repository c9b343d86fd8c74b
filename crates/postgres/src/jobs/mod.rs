//! The job verbs, one file per step of a job's life.

mod cancel;
mod claim;
mod complete;
mod delete;
mod enqueue;
mod group;
mod halves;
mod kinds;
mod lease_mark;
mod leases;
mod letters;
mod link;
mod mark;
mod numbers;
mod proceed;
mod receipt;
mod settle;
mod upkeep;

use std::time::Duration;

use tidemill_core::clock::millis;
use tidemill_core::{Error, Guarantee, JobId, Lease, Queue, QueueName, Token};
use tokio_postgres::Row;

#[cfg(feature = "sqlx")]
pub(crate) use complete::{Close, Follow};
pub(crate) use complete::{Closing, completed, state_code, woken};
#[cfg(feature = "sqlx")]
pub(crate) use enqueue::Columns;
pub(crate) use enqueue::{delay, earliest, wakes};
pub(crate) use group::Clerk;
pub(crate) use halves::Halves;
pub(crate) use kinds::{Key, keys};
pub(crate) use lease_mark::LeaseMark;
#[cfg(feature = "sqlx")]
pub(crate) use link::made;
pub(crate) use link::{Linked, nothing, read_made};
pub(crate) use mark::Marks;
pub(crate) use numbers::Numbers;
pub(crate) use settle::{Ended, Ending};

/// How often to look for a job that moves while it is looked for. Each look that misses it means that a
/// worker has claimed or settled it in between; nobody does that a dozen times in a row.
pub(crate) const LOOKS: usize = 12;

/// How a delivery guarantee is stored.
fn code(delivery: Guarantee) -> i16 {
    match delivery {
        Guarantee::AtMostOnce => 0,
        Guarantee::AtLeastOnce => 1,
    }
}

/// The queue that is stored like this.
pub(crate) fn queue(name: &str, code: i16) -> Result<Queue, Error> {
    let delivery = match code {
        0 => Guarantee::AtMostOnce,
        1 => Guarantee::AtLeastOnce,
        other => return Err(Error::Corrupt(format!("queue {name:?} has the delivery {other}"))),
    };
    Ok(Queue { name: QueueName::new(name).map_err(damaged)?, guarantee: delivery })
}

/// The id that is stored like this.
pub(crate) fn job_id(text: &str) -> Result<JobId, Error> {
    JobId::new(text).map_err(damaged)
}

/// The job that is at a step of its chain.
pub(crate) fn job_at(row: &Row) -> Result<JobId, Error> {
    at_step(row.get("id"), row.get("step"))
}

/// The same of a row that has been read.
pub(crate) fn at_step(chain: &str, step: i32) -> Result<JobId, Error> {
    let chain = job_id(chain)?;
    Ok(if step == 0 { chain } else { chain.at_step(step.unsigned_abs()) })
}

pub(crate) fn damaged(error: impl std::fmt::Display) -> Error {
    Error::Corrupt(error.to_string())
}

/// The lease of the job with this number.
fn lease(queue: &Queue, job: JobId, seq: i64) -> Lease {
    Lease { queue: queue.clone(), job, shard: 0, token: Token(u128::try_from(seq).unwrap_or_default()) }
}

/// A duration in milliseconds that can be added to any time there is: a snooze of all eternity must not spoil
/// the settlements it shares a statement with.
pub(crate) fn ms(duration: Duration) -> i64 {
    millis(duration).min(1 << 52)
}

/// The number behind a lease; -1, which no job has, for a token that was never given out here.
pub(crate) fn number(lease: &Lease) -> i64 {
    i64::try_from(lease.token.0).unwrap_or(-1)
}

/// The numbers of these leases in the order in which every statement locks them.
fn sorted(leases: &[Lease]) -> Vec<i64> {
    let mut numbers: Vec<_> = leases.iter().map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
