//! `terminate`: ends runs from outside.

use tidemill_core::Error;
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::TerminateParams;
use tidemill_core::wake::Wake;
use tokio_postgres::types::ToSql;

use super::effects::EffectColumns;
use super::{EventArgs, status_code, to_i64};
use crate::Inner;
use crate::jobs::{MAX_ATTEMPTS, no_rows, wake_texts};
use crate::sql::TERMINATE;

impl Inner {
    /// Ends a run without its code.
    pub(crate) async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        let mut effects = EffectColumns::default();
        effects.add(self, 1, terminate.effects).await?;
        let close = terminate.close;
        let (run, length, status) =
            (terminate.run.as_str(), to_i64(terminate.cursor), status_code(close.status));
        let (output, error): (&[u8], _) = (&close.output, close.error.as_deref().map(str::as_bytes));
        let notice = close.notify_parent.as_ref().map(EventArgs::new);
        let notice = notice.as_ref();
        let parent = notice.map(|event| event.run);
        let (kind, entry) = (notice.map(|event| event.kind), notice.map(|event| event.entry));
        let (id, seq) = (notice.and_then(|event| event.id), notice.and_then(|event| event.seq));
        let own: [&(dyn ToSql + Sync); 10] =
            [&run, &length, &status, &output, &error, &parent, &kind, &entry, &id, &seq];
        let params: Vec<_> = own.into_iter().chain(effects.params()).collect();
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
        let message = format!("the task of run {run} changes state too fast for it to be terminated");
        Err(Error::Unavailable { message, source: None })
    }
}
