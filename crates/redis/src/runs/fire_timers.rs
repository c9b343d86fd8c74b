//! Telling runs of their alarms.

use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::store::Promoted;
use tidemill_core::store::runs::RunTimer;

use crate::connection::reply::{array, int, text};
use crate::error::odd_answer;
use crate::jobs::promote::until;
use crate::store::RedisStore;

/// How many alarms one script fires: each may concern another run, which is read, changed and given a task.
const BATCH: usize = 128;

impl RedisStore {
    /// Fires alarms of a shard that are due, a bounded number, and says how long until the next.
    pub(crate) async fn fire_alarms(&self, shard: u16, limit: usize) -> Result<Promoted, Error> {
        let mut all = Promoted::default();
        for first in (0..limit).step_by(BATCH) {
            let fired = self.fire_some(shard, BATCH.min(limit - first)).await?;
            all.moved += fired.moved;
            all.next = fired.next;
            if fired.next != Some(Duration::ZERO) {
                break;
            }
        }
        Ok(all)
    }

    async fn fire_some(&self, shard: u16, limit: usize) -> Result<Promoted, Error> {
        let mut call = self.call_on_runs(&self.scripts.fire_timers, shard).arg(limit);
        for alarm in RunTimer::ALL {
            let (before, after) = alarm.event_parts();
            call.push(alarm.code());
            call.push(before);
            call.push(after);
        }
        let mut parts = array(self.link.call(shard, call).await?).unwrap_or_default();
        let damaged = parts.split_off(parts.len().min(2));
        damaged.into_iter().filter_map(text).for_each(|what| self.complaints.once("firing alarms", &what));
        let [fired, next] = &parts[..] else { return Err(odd_answer("fire")) };
        let count = |value| int(value).ok_or_else(|| odd_answer("fire"));
        Ok(Promoted { moved: u64::try_from(count(fired)?).unwrap_or(0), next: until(count(next)?) })
    }
}
