//! The end of a job, in the transaction that did its work.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use tidemill_core::chain::{Completion, IntoCompletion};
use tidemill_core::store::Verdict;
use tidemill_core::transaction::{TransactionClaim, Uncommitted};
use tidemill_core::{Clock, Error, Outcome};
use tokio_postgres::types::{ToSql, Type};

use super::Tx;
use crate::error::{LEASE_LOST, breaks_connection, classify, has_failed_before};
use crate::jobs::{number, wake_texts};

/// The delay before a retry after a conflict with another transaction. Up to as long again is added
/// at random.
const CONFLICT_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Work that is not committed yet, and how the job ends with it.
pub(super) struct UncommittedWork {
    tx: Tx,
    end: Box<dyn FnOnce(bool) -> Result<Completion, Error> + Send>,
}

impl UncommittedWork {
    pub(super) fn new<O: IntoCompletion>(tx: Tx, output: O) -> Self {
        Self { tx, end: Box::new(move |kept| output.into_completion(kept)) }
    }
}

#[async_trait]
impl Uncommitted for UncommittedWork {
    async fn commit(self: Box<Self>, claim: &TransactionClaim) -> Result<Outcome, Error> {
        let Self { mut tx, end } = *self;
        let end = end(claim.envelope.keep_result().is_some())?;
        let settlement = claim.settlement(end, tx.inner.pool.clock.now())?;
        let end_args = tx.inner.end_args(&settlement.change).await?;
        let (token, job) = (number(&claim.lease), claim.lease.job.as_str());
        tx.inner.pool.count_one();
        let statement = match tx.connection.statement(tx.inner.calls.settle(&end_args)).await {
            Ok(statement) => statement,
            Err(error) => return failed(error),
        };
        let [a, b, c, d, e] = end_args.params();
        let params: [(&(dyn ToSql + Sync), Type); 7] =
            [(&token, Type::INT8), (&job, Type::TEXT), a, b, c, d, e];
        // One round trip: a COMMIT after a failed statement rolls back.
        let settled = tx.connection.send(&statement, &params);
        let (settled, committed) = join(settled, tx.connection.client.batch_execute("COMMIT")).await;
        tx.ended = committed.is_ok();
        match (settled, committed) {
            (Err(error), _) | (Ok(_), Err(error)) => failed(error),
            (Ok(rows), Ok(())) => {
                tx.announce(rows.first().map(wake_texts).unwrap_or_default()).await;
                Ok(Outcome::Settled(Verdict::Accepted))
            }
        }
    }
}

/// The result of a transaction that failed. If the server reports the failure, it is final;
/// otherwise the result is unknown.
fn failed(error: tokio_postgres::Error) -> Result<Outcome, Error> {
    let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
    if code == LEASE_LOST {
        return Ok(Outcome::Settled(Verdict::LeaseLost));
    }
    if has_failed_before(&error) {
        let error = "a statement in the job's transaction had failed".to_owned();
        return Ok(Outcome::Retry { error, after: None });
    }
    if breaks_connection(&error) {
        return Err(classify("committing a job with its work", error));
    }
    // Conflicts with other transactions pass as soon as those have ended.
    let conflict = code.starts_with("40") || code == "55P03";
    let after = conflict.then(|| CONFLICT_RETRY_DELAY + CONFLICT_RETRY_DELAY.mul_f64(fastrand::f64()));
    let error = classify("committing a job with its work", error).full_message();
    Ok(Outcome::Retry { error, after })
}
