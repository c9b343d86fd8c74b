//! Continuing chains: the next step replaces the one that ended.

use tidemill_core::Error;
use tidemill_core::settle::NextJob;
use tokio_postgres::types::ToSql;

use crate::Inner;
use crate::jobs::{ClaimKey, SettledClaims, blocker_pairs, delay_ms, earliest, keys};
use crate::sql::CONTINUE;

impl Inner {
    /// Ends claims by continuing their chains.
    pub(crate) async fn continue_chains(
        &self,
        claims: &[(ClaimKey, &NextJob)],
        expired: bool,
    ) -> Result<SettledClaims, Error> {
        let (tokens, ids) = keys(claims);
        let mut queues = Vec::with_capacity(claims.len());
        for (_, step) in claims {
            queues.push(self.queue_id(&step.queue).await?);
        }
        let jobs = || claims.iter().map(|(_, step)| &step.job);
        let delays: Vec<i64> = jobs().map(|job| delay_ms(job.due)).collect();
        let times: Vec<i64> = jobs().map(|job| earliest(job.due)).collect();
        let envelopes: Vec<&[u8]> = jobs().map(|job| &*job.envelope).collect();
        let (waiters, chains) = blocker_pairs(jobs().map(|job| job.links.after.as_slice()));
        let params: [&(dyn ToSql + Sync); 9] =
            [&tokens, &ids, &expired, &queues, &delays, &times, &envelopes, &waiters, &chains];
        SettledClaims::from_function(&self.pool.query(&CONTINUE, &params).await?)
    }
}
