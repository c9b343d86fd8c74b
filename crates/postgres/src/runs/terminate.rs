//! `terminate`: ends runs from outside.

use tidemill_core::Error;
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::TerminateParams;
use tidemill_core::wake::Wake;
use tokio_postgres::types::ToSql;

use super::effects::EffectRows;
use super::rows::{CommitRow, EventRow};
use crate::Inner;
use crate::jobs::{MAX_ATTEMPTS, no_rows, wake_texts};
use crate::sql::TERMINATE;

impl Inner {
    /// Ends a run without its code.
    pub(crate) async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        let mut effects = EffectRows::default();
        effects.add(self, 1, terminate.effects).await?;
        let closing = CommitRow::terminating(&terminate);
        let notice = terminate.close.notify_parent.as_ref().map(EventRow::new);
        let params: [&(dyn ToSql + Sync); 3] = [&closing, &notice, &effects.rows()];
        for _ in 0..MAX_ATTEMPTS {
            let rows = self.pool.query(&TERMINATE, &params).await?;
            let row = rows.first().ok_or_else(no_rows)?;
            match row.get("outcome") {
                None => {
                    // This may be the retry of a call that ended it.
                    self.bus.publish(Wake::LeaseLost(terminate.run.task()));
                    self.bus.publish_and_flush(Wake::Finished(terminate.run.task())).await;
                    return Ok(Verdict::LeaseLost);
                }
                Some("ended") => {
                    self.announce_texts(wake_texts(row)).await;
                    // The caller is often a command that exits at once, so this waits until the
                    // wake-ups are sent.
                    self.bus.flush().await;
                    return Ok(Verdict::Accepted);
                }
                Some(_) => {}
            }
        }
        let message =
            format!("the task of run {} changes state too fast for it to be terminated", terminate.run);
        Err(Error::Unavailable { message, source: None })
    }
}
