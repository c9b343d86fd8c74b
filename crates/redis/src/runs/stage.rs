//! Staging: data that is too large for one script is sent in batches before it. Effects are applied
//! in batches after it.

use tidemill_core::store::runs::{Effect, StartRunParams, StoredEntry};
use tidemill_core::workflow::RunId;
use tidemill_core::{Error, JobId};

use super::effects::{effect_bytes, kind_word, write_effect};
use crate::chains::outbox::OutboxEntry;
use crate::connection::ScriptCall;
use crate::connection::reply::{array, int};
use crate::error::unexpected_reply;
use crate::jobs::{MAX_SCRIPT_BYTES, script_batches};
use crate::store::RedisStore;

/// How many effects one script applies: each takes 20 to 40 µs.
const MAX_SCRIPT_EFFECTS: usize = 256;

/// How many entries of a journal one script writes.
const MAX_SCRIPT_ENTRIES: usize = 256;

/// How long staged data waits for its script.
const STAGED_TTL_MS: u64 = 10 * 60 * 1000;

/// Data of a script: items, or the id under which they were staged.
pub(super) enum ScriptItems<'a, T> {
    Items(&'a [T]),
    Staged { staging_id: String, count: usize },
}

impl RedisStore {
    /// Stages effects if they are too many for one script.
    pub(super) async fn stage_effects<'a>(
        &self,
        shard: u16,
        effects: &'a [Effect],
    ) -> Result<ScriptItems<'a, Effect>, Error> {
        let bytes: usize = effects.iter().map(effect_bytes).sum();
        if effects.len() <= MAX_SCRIPT_EFFECTS && bytes <= MAX_SCRIPT_BYTES {
            return Ok(ScriptItems::Items(effects));
        }
        let (staging_id, key) = self.new_staging_key(shard);
        for batch in script_batches((0..effects.len()).collect(), |index| effect_bytes(&effects[index])) {
            let mut call =
                ScriptCall::new(&self.scripts.stage_effects, std::slice::from_ref(&key)).arg(STAGED_TTL_MS);
            batch.iter().for_each(|&index| call.push(pack_effect(&effects[index])));
            self.connections.call(shard, call).await?;
        }
        Ok(ScriptItems::Staged { staging_id, count: effects.len() })
    }

    /// Stages the entries of a new journal if they are too many for one script.
    pub(super) async fn stage_journal<'a>(
        &self,
        shard: u16,
        run: &'a StartRunParams,
    ) -> Result<ScriptItems<'a, StoredEntry>, Error> {
        let journal = &run.journal[..];
        let bytes: usize = journal.iter().map(|written| written.bytes.len()).sum();
        if journal.len() <= MAX_SCRIPT_ENTRIES && bytes <= MAX_SCRIPT_BYTES {
            return Ok(ScriptItems::Items(journal));
        }
        let (staging_id, key) = self.new_staging_key(shard);
        for batch in script_batches((0..journal.len()).collect(), |index| journal[index].bytes.len()) {
            let first = batch.first().map_or(1, |index| index + 1);
            let call = ScriptCall::new(&self.scripts.stage_journal, std::slice::from_ref(&key));
            let mut call = call.arg(STAGED_TTL_MS).arg(first).arg(run.cursor);
            for index in batch {
                call.push(kind_word(journal[index].kind));
                call.push(&journal[index].bytes[..]);
            }
            self.connections.call(shard, call).await?;
        }
        Ok(ScriptItems::Staged { staging_id, count: journal.len() })
    }

    fn new_staging_key(&self, shard: u16) -> (String, String) {
        let staging_id = JobId::generate().to_string();
        let key = self.keys.staged(shard, &staging_id);
        (staging_id, key)
    }

    /// Applies the pending effects of a run.
    pub(crate) async fn apply_effects(&self, shard: u16, run: &RunId) -> Result<(), Error> {
        loop {
            let call = self.run_script_call(&self.scripts.apply_effects, shard);
            let call = call.arg(run.as_str()).arg(MAX_SCRIPT_EFFECTS).arg(MAX_SCRIPT_BYTES);
            let unexpected = || unexpected_reply("apply_effects");
            let mut parts = array(self.connections.call(shard, call).await?).ok_or_else(unexpected)?;
            let outbox = OutboxEntry::parse_all(parts.split_off(parts.len().min(1)));
            self.process_outbox(shard, outbox).await;
            if parts.first().and_then(int).ok_or_else(unexpected)? == 0 {
                return Ok(());
            }
        }
    }
}

/// The arguments of an effect packed as a MessagePack array, which scripts can read.
fn pack_effect(effect: &Effect) -> Vec<u8> {
    let (mut count, mut texts) = (0_u32, Vec::new());
    write_effect(effect, &mut |text| {
        count += 1;
        texts.push(0xdb);
        texts.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        texts.extend(text);
    });
    let mut all = vec![0xdd];
    all.extend(count.to_be_bytes());
    all.append(&mut texts);
    all
}
