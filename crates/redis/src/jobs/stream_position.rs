//! The position of a stream's consumer group.

use tidemill_core::{Error, Queue, Token};

use crate::connection::ScriptCall;
use crate::connection::reply::{array, parse_token, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

/// How far a stream has been read. Entries up to there that nobody holds are acknowledged.
#[derive(Debug)]
pub(crate) struct StreamPosition {
    /// The last entry that was read; of a paused stream, before it was paused.
    pub(crate) last_read: String,
    /// The consumer that holds the requested entry.
    pub(crate) holder: Option<String>,
}

impl StreamPosition {
    /// Whether an entry has been read.
    pub(crate) fn covers(&self, entry: Token) -> bool {
        parse_token(&self.last_read).is_some_and(|at| entry <= at)
    }
}

impl RedisStore {
    /// The position of the group, and the holder of this entry.
    pub(crate) async fn stream_position(
        &self,
        shard: u16,
        queue: &Queue,
        entry: Option<&[u8]>,
    ) -> Result<StreamPosition, Error> {
        let keys = [self.keys.target(shard, queue), self.keys.paused(shard, queue)];
        let call = ScriptCall::new(&self.scripts.stream_position, &keys)
            .arg(self.group(queue))
            .arg(entry.unwrap_or_default());
        let mut parts = array(self.connections.call(shard, call).await?).unwrap_or_default().into_iter();
        let at = parts.next().and_then(text).ok_or_else(|| unexpected_reply("stream_position"))?;
        let holder = parts.nth(1).and_then(text).filter(|holder| !holder.is_empty());
        Ok(StreamPosition { last_read: at, holder })
    }
}
