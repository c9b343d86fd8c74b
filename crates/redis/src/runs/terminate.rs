//! Ending a run from outside.

use tidemill_core::Error;
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::TerminateParams;

use super::effects::{push_close, push_effects};
use crate::chains::outbox::Errand;
use crate::connection::reply::{array, int};
use crate::error::odd_answer;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn terminate_run(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        let TerminateParams { run, cursor, effects, close } = terminate;
        let shard = self.keys.shard_of_run(run);
        loop {
            let effects = self.stage_effects(shard, effects).await?;
            let mut call = self.call_on_runs(&self.scripts.terminate, shard).arg(run.as_str()).arg(cursor);
            push_effects(&mut call, &effects);
            push_close(&mut call, close);
            let odd = || odd_answer("terminate");
            let mut parts = array(self.link.call(shard, call).await?).ok_or_else(odd)?;
            let errands = Errand::all(parts.split_off(parts.len().min(1)));
            self.carry_on(shard, errands).await;
            match parts.first().and_then(int) {
                Some(1) => return Ok(Verdict::Accepted),
                Some(0) => return Ok(Verdict::LeaseLost),
                // What the run has done comes before its end.
                Some(2) => self.apply_effects(shard, run).await?,
                _ => return Err(odd()),
            }
        }
    }
}
