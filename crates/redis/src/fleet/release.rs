//! Releasing sessions.

use tidemill_core::Error;
use tidemill_core::store::fleet::ReleaseParams;

use crate::connection::named_args::NamedArgs;
use crate::connection::reply::ints;
use crate::error::unexpected_reply;
use crate::jobs::script_batches;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn release_sessions(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
        let mut results = Vec::with_capacity(release.len());
        for batch in script_batches((0..release.len()).collect(), |_| 0) {
            let session = |&position: &usize| {
                let ReleaseParams { session, holder } = &release[position];
                NamedArgs::new().with("id", session.as_str()).with("holder", holder.as_str())
            };
            let args = NamedArgs::new().with("sessions", batch.iter().map(session).collect::<Vec<_>>());
            let ended = ints(self.call_fleet(&self.fleet_state.scripts.release, args).await?, "release")?;
            if ended.len() != batch.len() {
                return Err(unexpected_reply("release"));
            }
            results.extend(ended.into_iter().map(|ended| ended == 1));
        }
        Ok(results)
    }
}
