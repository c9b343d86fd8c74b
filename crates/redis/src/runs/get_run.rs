//! Looking at one run.

use redis::Value;
use tidemill_core::store::runs::RunInfo;
use tidemill_core::workflow::RunId;
use tidemill_core::{Error, Timestamp};

use super::instance::Instance;
use crate::connection::reply::{array, bytes, text};
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn find_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        let shard = self.keys.shard_of_run(run);
        let get = redis::cmd("GET").arg(self.keys.instance(shard, run)).take();
        let Some(state) = bytes(self.link.query(shard, &get).await?) else { return Ok(None) };
        let instance = Instance::read(run, &state)?;
        // Whoever waits for its end looks when it has one, and then it has no alarms.
        if instance.is_closed() {
            return instance.info(None).map(Some);
        }
        let first =
            redis::cmd("ZRANGE").arg(self.keys.alarms(shard, run)).arg(0).arg(0).arg("WITHSCORES").take();
        instance.info(next_alarm(self.link.query(shard, &first).await?)).map(Some)
    }
}

/// When the first of a run's alarms is due.
pub(super) fn next_alarm(answer: Value) -> Option<Timestamp> {
    let due = array(answer)?.into_iter().nth(1).and_then(text)?;
    #[expect(clippy::cast_possible_truncation, reason = "due times are whole milliseconds")]
    due.parse::<f64>().ok().map(|due| Timestamp(due as i64))
}
