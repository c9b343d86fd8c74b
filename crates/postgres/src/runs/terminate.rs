//! Ending runs from outside.

use tidemill_core::Error;
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::TerminateParams;
use tidemill_core::wake::Wake;
use tokio_postgres::types::ToSql;

use super::effects::Effects;
use super::{Telling, big, status_code};
use crate::Inner;
use crate::jobs::{LOOKS, nothing, woken};
use crate::sql::TERMINATE;

impl Inner {
    /// Ends a run without asking its code.
    pub(crate) async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        let mut effects = Effects::default();
        effects.add(self, 1, terminate.effects).await?;
        let close = terminate.close;
        let (run, length, status) =
            (terminate.run.as_str(), big(terminate.cursor), status_code(close.status));
        let (output, error): (&[u8], _) = (&close.output, close.error.as_deref().map(str::as_bytes));
        let told = close.notify_parent.as_ref().map(Telling::of);
        let told = told.as_ref();
        let parent = told.map(|told| told.run);
        let (kind, entry) = (told.map(|told| told.kind), told.map(|told| told.entry));
        let (id, seq) = (told.and_then(|told| told.id), told.and_then(|told| told.seq));
        let own: [&(dyn ToSql + Sync); 10] =
            [&run, &length, &status, &output, &error, &parent, &kind, &entry, &id, &seq];
        let params: Vec<_> = own.into_iter().chain(effects.params()).collect();
        for _ in 0..LOOKS {
            let rows = self.pool.query(&TERMINATE, &params).await?;
            let row = rows.first().ok_or_else(nothing)?;
            match row.get("outcome") {
                None => {
                    // The call that ended it may have been this one, and its answer lost.
                    self.bus.publish(Wake::LeaseLost(terminate.run.task()));
                    self.bus.publish_and_flush(Wake::Finished(terminate.run.task())).await;
                    return Ok(Verdict::LeaseLost);
                }
                Some("ended") => {
                    self.announce_woken(woken(row)).await;
                    // Whoever terminates is often a command that ends at once, so this waits until it is said.
                    self.bus.flush().await;
                    return Ok(Verdict::Accepted);
                }
                Some(_) => {}
            }
        }
        let message = format!("the task of run {run} moves too fast for it to be terminated");
        Err(Error::Unavailable { message, source: None })
    }
}
