//! Telling runs of their alarms.

use tidemill_core::Error;
use tidemill_core::store::Promoted;
use tidemill_core::store::runs::Alarm;

use crate::error::odd_answer;
use crate::jobs::maintain::until;
use crate::store::RedisStore;
use crate::value::{array, int};

impl RedisStore {
    /// Fires alarms of a shard that are due, a bounded number, and says how long until the next.
    pub(crate) async fn fire_alarms(&self, shard: u16, limit: usize) -> Result<Promoted, Error> {
        let mut call = self.call_on_runs(&self.scripts.fire, shard).arg(limit);
        for alarm in Alarm::ALL {
            let (before, after) = alarm.around();
            call.push(alarm.letter());
            call.push(before);
            call.push(after);
        }
        let parts = array(self.link.call(shard, call).await?).unwrap_or_default();
        let [fired, next] = &parts[..] else { return Err(odd_answer("fire")) };
        let count = |value| int(value).ok_or_else(|| odd_answer("fire"));
        Ok(Promoted { moved: u64::try_from(count(fired)?).unwrap_or(0), next: until(count(next)?) })
    }
}
