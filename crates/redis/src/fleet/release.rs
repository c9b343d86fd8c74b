//! Releasing sessions.

use tidemill_core::Error;
use tidemill_core::fleet::WorkerDefaults;
use tidemill_core::store::fleet::ReleaseParams;

use crate::connection::reply::ints;
use crate::error::odd_answer;
use crate::jobs::portions;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn end_sessions(&self, release: &[ReleaseParams]) -> Result<Vec<bool>, Error> {
        let mut answers = Vec::with_capacity(release.len());
        for portion in portions((0..release.len()).collect(), |_| 0) {
            let mut call = self.call_on_fleet(&self.registry.scripts.release, WorkerDefaults::default());
            for &position in &portion {
                call.push(release[position].session.as_str());
                call.push(release[position].holder.as_str());
            }
            let ended = ints(self.ask_fleet(call).await?, "release")?;
            if ended.len() != portion.len() {
                return Err(odd_answer("release"));
            }
            answers.extend(ended.into_iter().map(|ended| ended == 1));
        }
        Ok(answers)
    }
}
