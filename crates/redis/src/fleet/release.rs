//! Releasing sessions.

use tidemill_core::Error;
use tidemill_core::fleet::WorkerDefaults;
use tidemill_core::store::fleet::ReleaseParams;

use crate::connection::reply::ints;
use crate::error::unexpected_reply;
use crate::jobs::script_batches;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn release_sessions(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
        let mut results = Vec::with_capacity(release.len());
        for batch in script_batches((0..release.len()).collect(), |_| 0) {
            let mut call =
                self.fleet_script_call(&self.fleet_state.scripts.release, WorkerDefaults::default());
            for &position in &batch {
                call.push(release[position].session.as_str());
                call.push(release[position].holder.as_str());
            }
            let ended = ints(self.call_fleet(call).await?, "release")?;
            if ended.len() != batch.len() {
                return Err(unexpected_reply("release"));
            }
            results.extend(ended.into_iter().map(|ended| ended == 1));
        }
        Ok(results)
    }
}
