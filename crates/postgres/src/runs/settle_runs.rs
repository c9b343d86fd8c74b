//! Settlement of tasks and of jobs that runs wait for: one statement, however many runs there are.

use tidemill_core::Error;
use tidemill_core::wake::Wake;
use tokio_postgres::types::ToSql;

use super::batch::{RunBatch, RunChange};
use crate::Inner;
use crate::jobs::{ClaimKey, SettledClaims, keys};
use crate::sql::SETTLE_RUNS;
use crate::wake::CommitNotifyPermit;

impl Inner {
    /// Ends claims. They are sorted by number, each with its index among the caller's changes.
    pub(crate) async fn settle_runs(
        &self,
        claims: &[(ClaimKey, (usize, RunChange<'_>))],
        expired: bool,
    ) -> Result<SettledClaims, Error> {
        let (tokens, ids) = keys(claims);
        let mut changes: Vec<(usize, i32, RunChange<'_>)> =
            (1..).zip(claims).map(|(claim, (_, (at, change)))| (*at, claim, *change)).collect();
        changes.sort_unstable_by_key(|(at, ..)| *at);
        let mut batch = RunBatch::default();
        for (_, claim, change) in changes {
            batch.add(self, claim, change).await?;
        }
        let permit = self.commit_notify.as_ref().and_then(|notify| notify.try_acquire(batch.count_ends()));
        let channel = permit.as_ref().map(CommitNotifyPermit::channel);
        let (commits, events, effects) = (&batch.commits, &batch.events, batch.effects.rows());
        let params: [&(dyn ToSql + Sync); 7] = [&tokens, &ids, &expired, commits, events, &effects, &channel];
        let answer = self.pool.query(&SETTLE_RUNS, &params).await;
        match (answer, permit) {
            (Ok(rows), None) => SettledClaims::from_function(&rows),
            (Ok(rows), Some(_)) => {
                let mut settled = SettledClaims::from_function(&rows)?;
                settled.wake_texts.retain(|text| !self.dispatch_if_notified(text));
                Ok(settled)
            }
            (Err(error), permit) => {
                permit.into_iter().for_each(CommitNotifyPermit::failed);
                Err(error)
            }
        }
    }

    /// Dispatches a wake-up in this process only if the commit has notified the other processes of
    /// it. Returns whether it has.
    fn dispatch_if_notified(&self, text: &str) -> bool {
        match text.parse() {
            Ok(wake @ Wake::Finished(_)) => {
                self.bus.dispatch(wake);
                true
            }
            _ => false,
        }
    }
}
