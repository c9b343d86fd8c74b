//! Continuing chains: the next step replaces the one that ended.

use postgres_types::ToSql;
use tidemill_core::Error;
use tidemill_core::settle::NextJob;

use crate::Inner;
use crate::jobs::{ClaimKey, SettledClaims, chain_ids, delay_ms, earliest, keys};
use crate::sql::CONTINUE;

/// The next step of a chain, as `continue_jobs` takes it.
#[derive(Debug, ToSql)]
#[postgres(name = "step_row")]
struct StepRow<'a> {
    queue: i32,
    delay: i64,
    earliest: i64,
    envelope: &'a [u8],
    after_chains: Vec<String>,
}

impl<'a> StepRow<'a> {
    fn new(queue: i32, step: &'a NextJob) -> Self {
        let job = &step.job;
        Self {
            queue,
            delay: delay_ms(job.due),
            earliest: earliest(job.due),
            envelope: &job.envelope,
            after_chains: chain_ids(&job.links.after),
        }
    }
}

impl Inner {
    /// Ends claims by continuing their chains.
    pub(crate) async fn continue_chains(
        &self,
        claims: &[(ClaimKey, &NextJob)],
        expired: bool,
    ) -> Result<SettledClaims, Error> {
        let (tokens, ids) = keys(claims);
        let mut steps = Vec::with_capacity(claims.len());
        for (_, step) in claims {
            steps.push(StepRow::new(self.queue_id(&step.queue).await?, step));
        }
        SettledClaims::from_function(&self.pool.query(&CONTINUE, &[&tokens, &ids, &expired, &steps]).await?)
    }
}
