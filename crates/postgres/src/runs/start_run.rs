//! `start_run`: starts runs.

use tidemill_core::Error;
use tidemill_core::store::runs::{StartRunParams, StartRunResult};
use tidemill_core::wake::Wake;
use tidemill_core::workflow::RunId;
use tokio_postgres::types::ToSql;

use super::effects::EffectRows;
use super::rows::NewRunRow;
use super::{conflict_code, kind_code};
use crate::Inner;
use crate::jobs::{corrupt, no_rows, wake_texts};
use crate::sql::START_RUN;

impl Inner {
    /// Starts a run, and announces its first task.
    pub(crate) async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error> {
        let queue = self.queue_id(&run.queue).await?;
        let mut effects = EffectRows::default();
        effects.add(self, 1, &run.effects).await?;
        effects.add_attributes(1, &run.attributes);
        let new = NewRunRow::new(run, queue);
        let kinds: Vec<i16> = run.journal.iter().map(|written| kind_code(written.kind)).collect();
        let entries: Vec<&[u8]> = run.journal.iter().map(|written| &*written.bytes).collect();
        let conflict = run.key.as_ref().map_or(0, |key| conflict_code(key.conflict));
        let params: [&(dyn ToSql + Sync); 5] = [&new, &kinds, &entries, &conflict, &effects.rows()];
        let rows = self.pool.query(&START_RUN, &params).await?;
        let row = rows.first().ok_or_else(no_rows)?;
        self.announce_texts(wake_texts(row)).await;
        let result = result_from_outcome(row.get("outcome"), row.get("other"))?;
        if result != StartRunResult::Created {
            // This may be the retry of a call that started it.
            self.bus.publish(Wake::Queue { queue: run.queue.clone(), jobs: 1 });
        }
        self.bus.flush().await;
        Ok(result)
    }
}

fn result_from_outcome(outcome: &str, other: Option<&str>) -> Result<StartRunResult, Error> {
    let other = other.map(RunId::new).transpose().map_err(corrupt)?;
    match (outcome, other) {
        ("created", None) => Ok(StartRunResult::Created),
        ("existing", Some(run)) => Ok(StartRunResult::Existing(run)),
        ("rejected", Some(run)) => Ok(StartRunResult::Rejected(run)),
        (other, _) => Err(Error::Corrupt(format!("a run was started with the answer {other:?}"))),
    }
}
