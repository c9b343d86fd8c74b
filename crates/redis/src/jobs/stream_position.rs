//! How far a stream has been read by its group.

use tidemill_core::{Error, Queue, Token};

use crate::connection::Call;
use crate::connection::reply::{array, parse_token, text};
use crate::error::odd_answer;
use crate::store::RedisStore;

/// How far a stream has been read. Entries up to there that nobody holds are done: acknowledged, whether deleted or not.
#[derive(Debug)]
pub(crate) struct Position {
    /// The last entry that was read; of a paused stream, before it was paused.
    pub(crate) at: String,
    /// Who holds the entry that was asked for.
    pub(crate) holder: Option<String>,
}

impl Position {
    /// Whether an entry has been read.
    pub(crate) fn covers(&self, entry: Token) -> bool {
        parse_token(&self.at).is_some_and(|at| entry <= at)
    }
}

impl RedisStore {
    /// How far a stream has been read, and who holds this entry.
    pub(crate) async fn position(
        &self,
        shard: u16,
        queue: &Queue,
        entry: Option<&[u8]>,
    ) -> Result<Position, Error> {
        let keys = [self.keys.target(shard, queue), self.keys.paused(shard, queue)];
        let call = Call::new(&self.scripts.stream_position, &keys)
            .arg(self.group(queue))
            .arg(entry.unwrap_or_default());
        let mut parts = array(self.link.call(shard, call).await?).unwrap_or_default().into_iter();
        let at = parts.next().and_then(text).ok_or_else(|| odd_answer("position"))?;
        let holder = parts.nth(1).and_then(text).filter(|holder| !holder.is_empty());
        Ok(Position { at, holder })
    }
}
