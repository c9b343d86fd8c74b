//! Reading one run.

use redis::Value;
use tidemill_core::store::runs::RunInfo;
use tidemill_core::workflow::RunId;
use tidemill_core::{Error, Timestamp};

use super::instance::Instance;
use crate::connection::reply::{array, bytes, text};
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error> {
        let shard = self.keys.shard_of_run(run);
        let get = redis::cmd("GET").arg(self.keys.instance(shard, run)).take();
        let Some(state) = bytes(self.connections.query(shard, &get).await?) else { return Ok(None) };
        let instance = Instance::parse(run, &state)?;
        // A closed run has no timers; callers that wait for its end read it then.
        if instance.is_closed() {
            return instance.into_info(None).map(Some);
        }
        let first =
            redis::cmd("ZRANGE").arg(self.keys.run_timers(shard, run)).arg(0).arg(0).arg("WITHSCORES").take();
        instance.into_info(parse_next_timer(self.connections.query(shard, &first).await?)).map(Some)
    }
}

/// The due time of a run's first timer.
pub(super) fn parse_next_timer(reply: Value) -> Option<Timestamp> {
    let due = array(reply)?.into_iter().nth(1).and_then(text)?;
    #[expect(clippy::cast_possible_truncation, reason = "due times are whole milliseconds")]
    due.parse::<f64>().ok().map(|due| Timestamp(due as i64))
}
