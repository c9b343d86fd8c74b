//! Reaping: removes stale workers, and adds those of other programs.

use std::sync::PoisonError;

use redis::Value;
use tidemill_core::Error;
use tidemill_core::fleet::{WorkerDefaults, WorkerKey};
use tidemill_core::store::fleet::{Reaped, UnusableEntry};

use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, bytes, int, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

/// Maximum number of each kind that one call removes or reads: a script blocks the server.
const MAX_REAPED: usize = 100;

impl RedisStore {
    pub(super) async fn reap_fleet(&self, standard: Option<WorkerDefaults>) -> Result<Reaped, Error> {
        let cursors = self.fleet_state.cursors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let args = NamedArgs::new()
            .with("limit", MAX_REAPED)
            .with("foreign_cursor", &cursors[0])
            .with("known_cursor", &cursors[1])
            .with("adds", standard.is_some());
        let script = &self.fleet_state.scripts.reap;
        let reply = self.call_fleet_with(standard.unwrap_or_default(), script, args).await?;
        let (reaped, cursors) = read(reply).ok_or_else(|| unexpected_reply("reap"))?;
        *self.fleet_state.cursors.lock().unwrap_or_else(PoisonError::into_inner) = cursors;
        Ok(reaped)
    }
}

fn read(reply: Value) -> Option<(Reaped, [String; 2])> {
    let mut parts = array(reply)?.into_iter();
    let sessions = u64::try_from(int(&parts.next()?)?).ok()?;
    let waiting = u64::try_from(int(&parts.next()?)?).ok()?;
    let cursors = [text(parts.next()?)?, text(parts.next()?)?];
    let (workers, found) = (worker_keys(parts.next()?)?, worker_keys(parts.next()?)?);
    let unusable = array(parts.next()?)?.into_iter().map(unusable_entry).collect::<Option<_>>()?;
    Some((Reaped { workers, sessions, waiting, found, unusable }, cursors))
}

/// Other programs may have written anything, so a name may be invalid UTF-8.
fn unusable_entry(pair: Value) -> Option<UnusableEntry> {
    let mut pair = array(pair)?.into_iter();
    let name = String::from_utf8_lossy(&bytes(pair.next()?)?).into_owned();
    let reason = String::from_utf8_lossy(&bytes(pair.next()?)?).into_owned();
    Some(UnusableEntry { name, reason })
}

/// Skips invalid worker ids of other programs; the script has removed them.
fn worker_keys(list: Value) -> Option<Vec<WorkerKey>> {
    Some(array(list)?.into_iter().filter_map(|id| text(id)?.parse().ok()).collect())
}
