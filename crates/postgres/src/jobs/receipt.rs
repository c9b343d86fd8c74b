//! Receipts: an enqueue leaves one in its own statement, so that its repeat makes nothing and gets the same answer.

use std::collections::HashSet;

use tidemill_core::store::{Enqueued, NewJob};
use tidemill_core::{Error, Timestamp};

use super::link::{Made, made};
use crate::Inner;
use crate::sql::FIND_RECEIPT;

/// How long receipts are kept: longer than repeats are begun after the first call (`retry::with_receipt`), and than the
/// store's clock as a client knows it is wrong.
pub(super) const RECEIPT_MS: i64 = 120_000;

/// The name of one call and all its repeats.
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
    /// What a call with this receipt has answered, if it took place.
    pub(super) async fn find_receipt(
        &self,
        receipt: &Receipt,
        jobs: &[NewJob],
    ) -> Result<Option<Vec<Made>>, Error> {
        let rows = self.pool.query(&FIND_RECEIPT, &[&receipt.at, &receipt.call]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        if let Some(codes) = row.get::<_, Option<Vec<i16>>>("made") {
            return made(&codes, &row.get::<_, Vec<Option<&str>>>("others")).map(Some);
        }
        let created: Option<Vec<&str>> = row.get("created");
        let answers = match created {
            Some(created) => answers(jobs, created),
            None => vec![Enqueued::Created; jobs.len()],
        };
        Ok(Some(answers.into_iter().map(Made::from).collect()))
    }
}

/// What became of jobs of which these were new. Of two with one id only the first was.
pub(super) fn answers<'a>(jobs: &[NewJob], created: impl IntoIterator<Item = &'a str>) -> Vec<Enqueued> {
    let mut created: HashSet<&str> = created.into_iter().collect();
    let answer = |job: &NewJob| match created.remove(job.id.as_str()) {
        true => Enqueued::Created,
        false => Enqueued::Exists,
    };
    jobs.iter().map(answer).collect()
}
