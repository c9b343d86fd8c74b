//! Ending claims of tasks, and of jobs that runs wait for: one statement, however many runs there are.

use tidemill_core::Error;

use super::batch::{Act, Batch};
use crate::Inner;
use crate::jobs::{Ended, Key, keys};
use crate::sql::SETTLE_RUNS;

impl Inner {
    /// Ends claims, which come in the order of their numbers, each with its place among the caller's changes.
    pub(crate) async fn settle_runs(
        &self,
        claims: &[(Key, (usize, Act<'_>))],
        expired: bool,
    ) -> Result<Ended, Error> {
        let (tokens, ids) = keys(claims);
        let mut acts: Vec<(usize, i32, Act<'_>)> =
            (1..).zip(claims).map(|(claim, (_, (at, act)))| (*at, claim, *act)).collect();
        acts.sort_unstable_by_key(|(at, ..)| *at);
        let mut batch = Batch::default();
        for (_, claim, act) in acts {
            batch.add(self, claim, act).await?;
        }
        let params = batch.params([&tokens, &ids, &expired]);
        Ended::read(&self.pool.query(&SETTLE_RUNS, &params).await?)
    }
}
