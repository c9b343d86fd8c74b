//! How large anything may be that the code hands on.

use std::fmt::Display;

use tidemill_core::workflow::{Command, Json};

use super::State;
use crate::error::TooLarge;
use crate::halt::Halt;

impl State {
    /// Finds out whether command `seq` can be given so much. If not, that is noted down in its place: a replay goes the same
    /// way, whatever is allowed by then.
    pub(crate) fn weigh(&mut self, seq: u64, what: impl Display, size: usize) -> Result<(), TooLarge> {
        if let Some((size, limit)) = self.script.too_large(seq) {
            return Err(TooLarge { size, limit });
        }
        if !self.script.is_live() || self.is_stopped() {
            return Ok(());
        }
        let Err(too_large) = self.measure(size) else { return Ok(()) };
        let TooLarge { size, limit } = too_large;
        self.issue(Command::TooLarge { seq, what: what.to_string(), size, limit });
        Err(too_large)
    }

    /// Finds out whether the run can end with this. Nobody could be told that it cannot, so it is blocked.
    pub(crate) fn weigh_end(&self, what: impl Display, payload: &Json) -> Result<(), Halt> {
        if !self.script.is_live() {
            return Ok(());
        }
        let blocked = |TooLarge { size, limit }| Halt::TooLarge { what: what.to_string(), size, limit };
        self.measure(payload.as_str().len()).map_err(blocked)
    }

    /// Compares it with what is allowed now.
    pub(crate) fn measure(&self, size: usize) -> Result<(), TooLarge> {
        let limit = self.payload_limit;
        if size <= limit { Ok(()) } else { Err(TooLarge { size: size as u64, limit: limit as u64 }) }
    }
}
