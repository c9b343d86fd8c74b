//! Values that are the same in every replay.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::workflow::{Command, Json, Topic};
use uuid::Uuid;

use super::{Ctx, refuse};
use crate::halt::Halt;
use crate::state::Recorded;

impl Ctx {
    /// Computes a value once, however often the code is replayed: for what depends on the world, and neither takes
    /// long nor fails. It must not use the context.
    pub fn side_effect<T: Serialize + DeserializeOwned>(&self, compute: impl FnOnce() -> T) -> T {
        let mut state = self.shared.lock();
        if !state.allows(&"a side effect") {
            drop(state);
            return compute();
        }
        let seq = state.next_seq();
        match state.script.side_effect(seq) {
            Recorded::Value(json) => match json.read() {
                Ok(value) => return value,
                Err(error) => state.misfit(format!("the value of side effect {seq}"), &error),
            },
            Recorded::Other(other) => {
                state.diverge(other.position, other.index, other.expected, other.got);
            }
            Recorded::New => {
                drop(state);
                return self.compute(seq, compute);
            }
        }
        // The run has halted; the code goes on to its next await with a value that nobody will see.
        drop(state);
        compute()
    }

    fn compute<T: Serialize>(&self, seq: u64, compute: impl FnOnce() -> T) -> T {
        self.shared.lock().bar();
        let value = compute();
        let mut state = self.shared.lock();
        if let Some(asked) = state.unbar() {
            let workflow = state.program.name().clone();
            state.stop(Halt::Misplaced { workflow, asked });
        }
        match Json::from_value(&value) {
            Ok(json) => state.issue(Command::SideEffect { seq, value: json }),
            Err(error) => state.misfit(format!("the value of side effect {seq}"), &error),
        }
        value
    }

    /// Whether the code may take the new way at this point: true for runs that come here for the first time, false
    /// for those that have gone the old way. A run goes the same way at every place that asks for the same `id`.
    pub fn patched(&self, id: &str) -> bool {
        let mut state = self.shared.lock();
        if let Some((_, way)) = state.patches.iter().find(|(known, _)| known.as_str() == id) {
            return *way;
        }
        let patch = match Topic::new(id) {
            Ok(patch) => patch,
            Err(error) => {
                refuse(&mut state, "the id of a patch".into(), error.to_string());
                return false;
            }
        };
        if !state.allows(&format_args!("patch `{patch}`")) {
            return false;
        }
        let way = state.script.patch(&patch).unwrap_or_else(|| {
            state.issue(Command::Patch { id: patch.clone() });
            true
        });
        state.patches.push((patch, way));
        way
    }

    /// Sets what the run can be found by.
    pub fn set_attribute<T: Serialize + ?Sized>(&self, name: &str, value: &T) {
        let attribute = Topic::new(name).map_err(|error| error.to_string());
        let value = Json::from_value(value).map_err(|error| error.to_string());
        let mut state = self.shared.lock();
        match attribute.and_then(|attribute| Ok((attribute, value?))) {
            Ok(pair) => state.issue(Command::SearchAttributes { values: BTreeMap::from([pair]) }),
            Err(message) => refuse(&mut state, format!("search attribute {name:?}"), message),
        }
    }

    /// A UUID that is random between runs and the same in every replay of this one.
    pub fn uuid(&self) -> Uuid {
        let mut state = self.shared.lock();
        let bytes = if state.allows(&"a UUID") { state.dice.bytes() } else { [0; 16] };
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// A number that is random between runs and the same in every replay of this one.
    pub fn random(&self) -> u64 {
        let mut state = self.shared.lock();
        if state.allows(&"a random number") { state.dice.roll() } else { 0 }
    }

    /// A random number in `range`; its start if it is empty.
    pub fn random_range(&self, range: Range<u64>) -> u64 {
        let width = range.end.saturating_sub(range.start);
        let rolled = u128::from(self.random()) * u128::from(width);
        range.start + u64::try_from(rolled >> 64).unwrap_or(0)
    }
}
