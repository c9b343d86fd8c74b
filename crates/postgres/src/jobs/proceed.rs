//! Continuing chains: the next step takes the place of the one that ended.

use tidemill_core::Error;
use tidemill_core::settle::NextJob;
use tokio_postgres::types::ToSql;

use super::enqueue::{delay, earliest};
use super::kinds::{Key, keys};
use super::link::links;
use super::settle::Ended;
use crate::Inner;
use crate::sql::CONTINUE;

impl Inner {
    /// Continues claims.
    pub(super) async fn proceed(&self, claims: &[(Key, &NextJob)], expired: bool) -> Result<Ended, Error> {
        let (tokens, ids) = keys(claims);
        let mut queues = Vec::with_capacity(claims.len());
        for (_, step) in claims {
            queues.push(self.number(&step.queue).await?);
        }
        let jobs = || claims.iter().map(|(_, step)| &step.job);
        let delays: Vec<i64> = jobs().map(|job| delay(job.due)).collect();
        let times: Vec<i64> = jobs().map(|job| earliest(job.due)).collect();
        let envelopes: Vec<&[u8]> = jobs().map(|job| &*job.envelope).collect();
        let (waiters, chains) = links(jobs().map(|job| job.links.after.as_slice()));
        let params: [&(dyn ToSql + Sync); 9] =
            [&tokens, &ids, &expired, &queues, &delays, &times, &envelopes, &waiters, &chains];
        Ended::read(&self.pool.query(&CONTINUE, &params).await?)
    }
}
