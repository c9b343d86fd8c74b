//! Firing timers of runs.

use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::store::Promoted;
use tidemill_core::store::runs::RunTimer;

use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, int, text};
use crate::error::unexpected_reply;
use crate::jobs::promote::delay_from_ms;
use crate::store::RedisStore;

/// How many timers one script fires: each may read and change another run, and create its task.
const MAX_BATCH_TIMERS: usize = 128;

impl RedisStore {
    /// Fires due timers of a shard, a bounded number; returns how long until the next.
    pub(crate) async fn fire_timers(&self, shard: u16, limit: usize) -> Result<Promoted, Error> {
        let mut all = Promoted::default();
        for first in (0..limit).step_by(MAX_BATCH_TIMERS) {
            let fired = self.fire_batch(shard, MAX_BATCH_TIMERS.min(limit - first)).await?;
            all.moved += fired.moved;
            all.next = fired.next;
            if fired.next != Some(Duration::ZERO) {
                break;
            }
        }
        Ok(all)
    }

    async fn fire_batch(&self, shard: u16, limit: usize) -> Result<Promoted, Error> {
        let mut events = NamedArgs::new();
        for timer in RunTimer::ALL {
            let (before, after) = timer.event_parts();
            events.set(timer.code(), [before, after]);
        }
        let args = NamedArgs::new().with("limit", limit).with("events", events);
        let call = self.run_script_call(&self.scripts.fire_timers, shard, args);
        let mut parts = array(self.connections.call(shard, call).await?).unwrap_or_default();
        let damaged = parts.split_off(parts.len().min(2));
        damaged
            .into_iter()
            .filter_map(text)
            .for_each(|description| self.logged_damage.log_once("firing alarms", &description));
        let [fired, next] = &parts[..] else { return Err(unexpected_reply("fire_timers")) };
        let count = |value| int(value).ok_or_else(|| unexpected_reply("fire_timers"));
        Ok(Promoted { moved: u64::try_from(count(fired)?).unwrap_or(0), next: delay_from_ms(count(next)?) })
    }
}
