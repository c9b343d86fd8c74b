//! Receipts: an enqueue stores one in its own statement, so that a retry adds nothing and gets the
//! same result.

use std::collections::HashSet;

use tidemill_core::store::{Enqueued, NewJob};
use tidemill_core::{Error, Timestamp};

use super::enqueue_dependent::{EnqueueOutcome, outcomes};
use crate::Inner;
use crate::sql::FIND_RECEIPT;

/// How long receipts are kept, in milliseconds. It is longer than retries begin after the first
/// call (`retry::with_receipt`), and longer than the client's estimate of the store's clock can be
/// off.
pub(super) const RECEIPT_MS: i64 = 120_000;

/// Identifies one call and all its retries.
pub(super) struct Receipt {
    pub(super) at: i64,
    pub(super) call: i64,
}

impl Receipt {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { at: now.0, call: fastrand::i64(..) }
    }
}

impl Inner {
    /// The outcome of the call with this receipt, if it took place.
    pub(super) async fn find_receipt(
        &self,
        receipt: &Receipt,
        jobs: &[NewJob],
    ) -> Result<Option<Vec<EnqueueOutcome>>, Error> {
        let rows = self.pool.query(&FIND_RECEIPT, &[&receipt.at, &receipt.call]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        if let Some(codes) = row.get::<_, Option<Vec<i16>>>("made") {
            return outcomes(&codes, &row.get::<_, Vec<Option<&str>>>("others")).map(Some);
        }
        let created: Option<Vec<&str>> = row.get("created");
        let results = match created {
            Some(created) => enqueue_results(jobs, created),
            None => vec![Enqueued::Created; jobs.len()],
        };
        Ok(Some(results.into_iter().map(EnqueueOutcome::from).collect()))
    }
}

/// The results for jobs of which these ids were new. Of two jobs with one id only the first was.
pub(super) fn enqueue_results<'a>(
    jobs: &[NewJob],
    created: impl IntoIterator<Item = &'a str>,
) -> Vec<Enqueued> {
    let mut created: HashSet<&str> = created.into_iter().collect();
    let result = |job: &NewJob| match created.remove(job.id.as_str()) {
        true => Enqueued::Created,
        false => Enqueued::Exists,
    };
    jobs.iter().map(result).collect()
}
