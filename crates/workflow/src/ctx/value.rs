//! Values that are the same in every replay: side effects, patches, random numbers.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::workflow::{Command, Json, Topic};
use uuid::Uuid;

use super::Ctx;
use crate::blocked::Blocked;
use crate::state::RecordedValue;

impl Ctx {
    /// Computes a value once and records it; a replay reads the recorded value. For short code that
    /// cannot fail but depends on the outside. It must not use the context.
    pub fn side_effect<T: Serialize + DeserializeOwned>(&self, compute: impl FnOnce() -> T) -> T {
        let mut state = self.shared.lock();
        if !state.may_change_run(&"a side effect") {
            drop(state);
            return compute();
        }
        let seq = state.next_seq();
        match state.commands.side_effect(seq) {
            RecordedValue::Value(json) => match json.read() {
                Ok(value) => return value,
                Err(error) => state.block_unreadable(format!("the value of side effect {seq}"), error),
            },
            RecordedValue::Mismatch(mismatch) => state.block_diverged(mismatch),
            RecordedValue::New => {
                drop(state);
                return self.compute(seq, compute);
            }
        }
        // The run is blocked. The code continues to its next await with a value that is never used.
        drop(state);
        compute()
    }

    fn compute<T: Serialize>(&self, seq: u64, compute: impl FnOnce() -> T) -> T {
        self.shared.lock().begin_read_only();
        let value = compute();
        let mut state = self.shared.lock();
        if let Some(command) = state.end_read_only() {
            let workflow = state.program.name().clone();
            state.block(Blocked::Misplaced { workflow, command });
        }
        match Json::from_value(&value) {
            Ok(json) => state.issue(Command::SideEffect { seq, value: json }),
            Err(error) => state.block_unreadable(format!("the value of side effect {seq}"), error),
        }
        value
    }

    /// Whether the code may take the new path: true for runs that come here for the first time,
    /// false for runs that have taken the old path. The answer for one `id` is the same throughout
    /// a run.
    pub fn patched(&self, id: &str) -> bool {
        let mut state = self.shared.lock();
        if let Some((_, taken)) = state.patches.iter().find(|(patch, _)| patch.as_str() == id) {
            return *taken;
        }
        let patch = match Topic::new(id) {
            Ok(patch) => patch,
            Err(error) => {
                state.block_unreadable("the id of a patch", error);
                return false;
            }
        };
        if !state.may_change_run(&format_args!("patch `{patch}`")) {
            return false;
        }
        let taken = state.commands.patch_taken(&patch).unwrap_or_else(|| {
            state.issue(Command::Patch { id: patch.clone() });
            true
        });
        state.patches.push((patch, taken));
        taken
    }

    /// Sets a search attribute of the run.
    pub fn set_attribute<T: Serialize + ?Sized>(&self, name: &str, value: &T) {
        let attribute = Topic::new(name).map_err(|error| error.to_string());
        let value = Json::from_value(value).map_err(|error| error.to_string());
        let mut state = self.shared.lock();
        match attribute.and_then(|attribute| Ok((attribute, value?))) {
            Ok(pair) => state.issue(Command::SearchAttributes { values: BTreeMap::from([pair]) }),
            Err(message) => state.block_unreadable(format!("search attribute {name:?}"), message),
        }
    }

    /// A UUID that differs between runs and is the same in every replay.
    pub fn uuid(&self) -> Uuid {
        let mut state = self.shared.lock();
        let bytes = if state.may_change_run(&"a UUID") { state.rng.next_bytes() } else { [0; 16] };
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// A number that differs between runs and is the same in every replay.
    pub fn random(&self) -> u64 {
        let mut state = self.shared.lock();
        if state.may_change_run(&"a random number") { state.rng.next_u64() } else { 0 }
    }

    /// A random number in `range`, or its start if it is empty.
    pub fn random_range(&self, range: Range<u64>) -> u64 {
        let width = range.end.saturating_sub(range.start);
        let rolled = u128::from(self.random()) * u128::from(width);
        range.start + u64::try_from(rolled >> 64).unwrap_or(0)
    }
}
