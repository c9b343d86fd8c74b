//! Looking at one run and its journal.

use redis::Value;
use tidemill_core::store::runs::{EntryKind, ReadJournalParams, RunInfo, StoredEntry};
use tidemill_core::workflow::RunId;
use tidemill_core::{Error, Timestamp};

use super::instance::Instance;
use crate::error::odd_answer;
use crate::link::Call;
use crate::store::RedisStore;
use crate::value::{array, bytes, parse_token, text};

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

    pub(crate) async fn read_journal(
        &self,
        read: ReadJournalParams<'_>,
    ) -> Result<Vec<(u64, StoredEntry)>, Error> {
        let shard = self.keys.shard_of_run(read.run);
        let call = Call::new(&self.scripts.journal, &[self.keys.events(shard, read.run)]);
        let call = call.arg(read.from).arg(read.limit).arg(read.bytes.max(1));
        let found = array(self.link.call(shard, call).await?).ok_or_else(|| odd_answer("journal"))?;
        found.into_iter().map(|item| entry(item).ok_or_else(|| odd_answer("journal"))).collect()
    }
}

/// When the first of a run's alarms is due.
pub(super) fn next_alarm(answer: Value) -> Option<Timestamp> {
    let due = array(answer)?.into_iter().nth(1).and_then(text)?;
    #[expect(clippy::cast_possible_truncation, reason = "due times are whole milliseconds")]
    due.parse::<f64>().ok().map(|due| Timestamp(due as i64))
}

/// An entry of a journal with its position: the first half of its id. What another program has written is shown as it is.
fn entry(item: Value) -> Option<(u64, StoredEntry)> {
    let mut parts = array(item)?.into_iter();
    let position = parse_token(&text(parts.next()?)?)?.0 >> 64;
    let (mut kind, mut entry) = (EntryKind::Answer, None);
    let fields = array(parts.next()?)?;
    for pair in fields.chunks_exact(2) {
        let value = bytes(pair[1].clone());
        match text(pair[0].clone()).as_deref() {
            Some("data") => entry = value,
            Some("kind") => kind = value.and_then(|word| read_kind(&word)).unwrap_or(kind),
            _ => {}
        }
    }
    Some((u64::try_from(position).ok()?, StoredEntry { kind, entry: entry.unwrap_or_default() }))
}

fn read_kind(word: &[u8]) -> Option<EntryKind> {
    let kinds = [EntryKind::Commit, EntryKind::Answer, EntryKind::Message];
    kinds.into_iter().find(|kind| super::effects::kind(*kind).as_bytes() == word)
}
