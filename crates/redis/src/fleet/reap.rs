//! What is dead is removed, and what other programs have entered is taken up.

use std::sync::PoisonError;

use redis::Value;
use tidemill_core::Error;
use tidemill_core::fleet::{WorkerDefaults, WorkerKey};
use tidemill_core::store::fleet::{Reaped, UnusableEntry};

use crate::connection::reply::{array, bytes, int, text};
use crate::error::odd_answer;
use crate::store::RedisStore;

/// How many of each one call removes, or looks at: they keep the server from everything else.
const LIMIT: usize = 100;

impl RedisStore {
    pub(super) async fn reap_fleet(&self, standard: Option<WorkerDefaults>) -> Result<Reaped, Error> {
        let walks = self.registry.walks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let script = &self.registry.scripts.reap;
        let call = self.call_on_fleet(script, standard.unwrap_or_default()).arg(LIMIT).arg(&walks[..]);
        let call = call.arg(u8::from(standard.is_some()));
        let (reaped, walks) = read(self.ask_fleet(call).await?).ok_or_else(|| odd_answer("reap"))?;
        *self.registry.walks.lock().unwrap_or_else(PoisonError::into_inner) = walks;
        Ok(reaped)
    }
}

fn read(answer: Value) -> Option<(Reaped, [String; 2])> {
    let mut parts = array(answer)?.into_iter();
    let sessions = u64::try_from(int(&parts.next()?)?).ok()?;
    let waiting = u64::try_from(int(&parts.next()?)?).ok()?;
    let walks = [text(parts.next()?)?, text(parts.next()?)?];
    let (members, found) = (ids(parts.next()?)?, ids(parts.next()?)?);
    let unusable = array(parts.next()?)?.into_iter().map(entry).collect::<Option<_>>()?;
    Some((Reaped { workers: members, sessions, waiting, found, unusable }, walks))
}

/// Other programs may have written anything, so a name need not be text.
fn entry(pair: Value) -> Option<UnusableEntry> {
    let mut pair = array(pair)?.into_iter();
    let name = String::from_utf8_lossy(&bytes(pair.next()?)?).into_owned();
    let why = String::from_utf8_lossy(&bytes(pair.next()?)?).into_owned();
    Some(UnusableEntry { name, reason: why })
}

/// What another program has written into an index, and is no member's name, is left out: it is removed all the same.
fn ids(list: Value) -> Option<Vec<WorkerKey>> {
    Some(array(list)?.into_iter().filter_map(|id| text(id)?.parse().ok()).collect())
}
