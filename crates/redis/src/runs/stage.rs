//! Staging: data that is too large for one script is sent in batches before it. Effects are applied
//! in batches after it.

use tidemill_core::store::runs::{Effect, StartRunParams, StoredEntry};
use tidemill_core::workflow::RunId;
use tidemill_core::{Error, JobId};

use super::effects::{effect_bytes, entry_args, inline_bytes, pack_effect};
use crate::chains::outbox::OutboxEntry;
use crate::connection::ScriptCall;
use crate::connection::named_args::{NamedArgs, Pack};
use crate::connection::reply::{array, int};
use crate::error::unexpected_reply;
use crate::jobs::{MAX_SCRIPT_BYTES, script_batches};
use crate::store::RedisStore;

/// How many effects one script applies: each takes 20 to 40 µs.
pub(super) const MAX_SCRIPT_EFFECTS: usize = 256;

/// How many entries of a journal one script writes.
const MAX_SCRIPT_ENTRIES: usize = 256;

/// How long staged data waits for its script.
const STAGED_TTL_MS: u64 = 10 * 60 * 1000;

/// Data of a script: items, or the id under which they were staged.
pub(crate) enum ScriptItems<'a, T> {
    Items(&'a [T]),
    Staged { staging_id: String, count: usize },
}

impl<T> ScriptItems<'_, T> {
    /// The items, or where they are, as arguments of a script.
    pub(super) fn to_args<P: Pack>(&self, pack: impl Fn(&T) -> P) -> NamedArgs {
        match self {
            Self::Items(items) => NamedArgs::new().with("items", items.iter().map(pack).collect::<Vec<_>>()),
            Self::Staged { staging_id, count } => {
                NamedArgs::new().with("staged", staging_id).with("count", *count)
            }
        }
    }
}

impl RedisStore {
    /// Stages effects if they are too many for one script.
    pub(crate) async fn stage_effects<'a>(
        &self,
        shard: u16,
        effects: &'a [Effect],
    ) -> Result<ScriptItems<'a, Effect>, Error> {
        if inline_bytes(effects).is_some() {
            return Ok(ScriptItems::Items(effects));
        }
        let (staging_id, key) = self.new_staging_key(shard);
        for batch in script_batches((0..effects.len()).collect(), |index| effect_bytes(&effects[index])) {
            let packed: Vec<Vec<u8>> = batch.iter().map(|&index| pack_effect(&effects[index])).collect();
            let packed: Vec<&[u8]> = packed.iter().map(Vec::as_slice).collect();
            let args = NamedArgs::new().with("ttl", STAGED_TTL_MS).with("effects", packed);
            let call = ScriptCall::named(&self.scripts.stage_effects, std::slice::from_ref(&key), &args);
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
            let items: Vec<NamedArgs> = batch.into_iter().map(|index| entry_args(&journal[index])).collect();
            let args = NamedArgs::new()
                .with("ttl", STAGED_TTL_MS)
                .with("first", first)
                .with("cursor", run.cursor)
                .with("items", items);
            let call = ScriptCall::named(&self.scripts.stage_journal, std::slice::from_ref(&key), &args);
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
            let args = NamedArgs::new()
                .with("run", run.as_str())
                .with("limit", MAX_SCRIPT_EFFECTS)
                .with("bytes", MAX_SCRIPT_BYTES);
            let call = self.run_script_call(&self.scripts.apply_effects, shard, args);
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
