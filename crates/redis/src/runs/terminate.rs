//! Terminating a run from outside.

use tidemill_core::Error;
use tidemill_core::store::Verdict;
use tidemill_core::store::runs::TerminateParams;

use super::effects::{close_args, effects_args};
use crate::chains::outbox::OutboxEntry;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, int};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn terminate_run(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error> {
        let TerminateParams { run, cursor, effects, close } = terminate;
        let shard = self.keys.shard_of_run(run);
        loop {
            let effects = self.stage_effects(shard, effects).await?;
            let args = NamedArgs::new()
                .with("run", run.as_str())
                .with("cursor", cursor)
                .with("effects", effects_args(&effects))
                .with("close", close_args(close));
            let call = self.run_script_call(&self.scripts.terminate, shard, args);
            let unexpected = || unexpected_reply("terminate");
            let mut parts = array(self.connections.call(shard, call).await?).ok_or_else(unexpected)?;
            let outbox = OutboxEntry::parse_all(parts.split_off(parts.len().min(1)));
            self.process_outbox(shard, outbox).await;
            match parts.first().and_then(int) {
                Some(1) => return Ok(Verdict::Accepted),
                Some(0) => return Ok(Verdict::LeaseLost),
                // Pending effects of the run come before its end.
                Some(2) => self.apply_effects(shard, run).await?,
                _ => return Err(unexpected()),
            }
        }
    }
}
