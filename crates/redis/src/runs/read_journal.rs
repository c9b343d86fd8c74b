//! Reading the journal of a run.

use redis::Value;
use tidemill_core::Error;
use tidemill_core::store::runs::{EntryKind, ReadJournalParams, StoredEntry};

use crate::connection::ScriptCall;
use crate::connection::named_args::NamedArgs;
use crate::connection::reply::{array, bytes, parse_token, text};
use crate::error::unexpected_reply;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn read_journal(
        &self,
        read: ReadJournalParams<'_>,
    ) -> Result<Vec<(u64, StoredEntry)>, Error> {
        let shard = self.keys.shard_of_run(read.run);
        let args = NamedArgs::new()
            .with("from", read.from)
            .with("limit", read.limit)
            .with("bytes", read.bytes.max(1));
        let keys = [self.keys.events(shard, read.run)];
        let call = ScriptCall::named(&self.scripts.read_journal, &keys, &args);
        let found = array(self.connections.call(shard, call).await?)
            .ok_or_else(|| unexpected_reply("read_journal"))?;
        found.into_iter().map(|item| entry(item).ok_or_else(|| unexpected_reply("read_journal"))).collect()
    }
}

/// A journal entry with its position: the first half of its id. Entries of other programs are
/// returned as they are.
fn entry(item: Value) -> Option<(u64, StoredEntry)> {
    let mut parts = array(item)?.into_iter();
    let position = parse_token(&text(parts.next()?)?)?.0 >> 64;
    let (mut kind, mut entry) = (EntryKind::CommandResult, None);
    let fields = array(parts.next()?)?;
    for pair in fields.chunks_exact(2) {
        let value = bytes(pair[1].clone());
        match text(pair[0].clone()).as_deref() {
            Some("data") => entry = value,
            Some("kind") => kind = value.and_then(|word| read_kind(&word)).unwrap_or(kind),
            _ => {}
        }
    }
    Some((u64::try_from(position).ok()?, StoredEntry { kind, bytes: entry.unwrap_or_default() }))
}

fn read_kind(word: &[u8]) -> Option<EntryKind> {
    let kinds = [EntryKind::Commit, EntryKind::CommandResult, EntryKind::Message];
    kinds.into_iter().find(|kind| super::effects::kind_word(*kind).as_bytes() == word)
}
