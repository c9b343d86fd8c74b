//! Staging: what is too much for one script is brought to the server in portions before the script that makes it count, and
//! effects are carried out in portions after it.

use tidemill_core::store::runs::{Effect, StartRunParams, StoredEntry};
use tidemill_core::workflow::RunId;
use tidemill_core::{Error, JobId};

use super::effects::{kind, weight_of, write_effect};
use crate::chains::outbox::Errand;
use crate::connection::Call;
use crate::connection::reply::{array, int};
use crate::error::odd_answer;
use crate::jobs::{SCRIPT_BYTES, portions};
use crate::store::RedisStore;

/// How many effects one script carries out: each takes 20 to 40 µs.
const MAX_EFFECTS: usize = 256;

/// How many entries of a journal one script writes.
const MAX_ENTRIES: usize = 256;

/// How long what was staged waits for the script that makes it count.
const STAGED_MS: u64 = 10 * 60 * 1000;

/// What a script is given: items, or the mark under which they were staged.
pub(super) enum Given<'a, T> {
    Items(&'a [T]),
    Staged { mark: String, count: usize },
}

impl RedisStore {
    /// Stages effects if they are too many for one script.
    pub(super) async fn stage_effects<'a>(
        &self,
        shard: u16,
        effects: &'a [Effect],
    ) -> Result<Given<'a, Effect>, Error> {
        let bytes: usize = effects.iter().map(weight_of).sum();
        if effects.len() <= MAX_EFFECTS && bytes <= SCRIPT_BYTES {
            return Ok(Given::Items(effects));
        }
        let (mark, key) = self.new_mark(shard);
        for portion in portions((0..effects.len()).collect(), |index| weight_of(&effects[index])) {
            let mut call = Call::new(&self.scripts.stage_effects, std::slice::from_ref(&key)).arg(STAGED_MS);
            portion.iter().for_each(|&index| call.push(packed(&effects[index])));
            self.link.call(shard, call).await?;
        }
        Ok(Given::Staged { mark, count: effects.len() })
    }

    /// Stages the entries of a new journal if they are too many for one script.
    pub(super) async fn stage_journal<'a>(
        &self,
        shard: u16,
        run: &'a StartRunParams,
    ) -> Result<Given<'a, StoredEntry>, Error> {
        let journal = &run.journal[..];
        let bytes: usize = journal.iter().map(|written| written.bytes.len()).sum();
        if journal.len() <= MAX_ENTRIES && bytes <= SCRIPT_BYTES {
            return Ok(Given::Items(journal));
        }
        let (mark, key) = self.new_mark(shard);
        for portion in portions((0..journal.len()).collect(), |index| journal[index].bytes.len()) {
            let first = portion.first().map_or(1, |index| index + 1);
            let call = Call::new(&self.scripts.stage_journal, std::slice::from_ref(&key));
            let mut call = call.arg(STAGED_MS).arg(first).arg(run.cursor);
            for index in portion {
                call.push(kind(journal[index].kind));
                call.push(&journal[index].bytes[..]);
            }
            self.link.call(shard, call).await?;
        }
        Ok(Given::Staged { mark, count: journal.len() })
    }

    fn new_mark(&self, shard: u16) -> (String, String) {
        let mark = JobId::generate().to_string();
        let key = self.keys.staged(shard, &mark);
        (mark, key)
    }

    /// Carries out what is pending of a run.
    pub(crate) async fn apply_effects(&self, shard: u16, run: &RunId) -> Result<(), Error> {
        loop {
            let call = self.call_on_runs(&self.scripts.apply_effects, shard);
            let call = call.arg(run.as_str()).arg(MAX_EFFECTS).arg(SCRIPT_BYTES);
            let odd = || odd_answer("apply_effects");
            let mut parts = array(self.link.call(shard, call).await?).ok_or_else(odd)?;
            let errands = Errand::all(parts.split_off(parts.len().min(1)));
            self.carry_on(shard, errands).await;
            if parts.first().and_then(int).ok_or_else(odd)? == 0 {
                return Ok(());
            }
        }
    }
}

/// The arguments of an effect as one: a list of texts in MessagePack, which scripts can read.
fn packed(effect: &Effect) -> Vec<u8> {
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
