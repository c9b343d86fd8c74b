//! The size limit of payloads that a workflow's code passes on.

use std::fmt::Display;

use tidemill_core::workflow::{Command, Json};

use super::RunState;
use crate::blocked::Blocked;
use crate::error::TooLarge;

impl RunState {
    /// Checks the payload of command `seq`. Records a `TooLarge` command if it exceeds the limit,
    /// so that a replay decides the same whatever the limit is then.
    pub(crate) fn check_size(&mut self, seq: u64, what: impl Display, size: usize) -> Result<(), TooLarge> {
        if let Some((size, limit)) = self.commands.too_large(seq) {
            return Err(TooLarge { size, limit });
        }
        if !self.commands.is_live() || self.is_stopped() {
            return Ok(());
        }
        let Err(too_large) = self.check_limit(size) else { return Ok(()) };
        let TooLarge { size, limit } = too_large;
        self.issue(Command::TooLarge { seq, what: what.to_string(), size, limit });
        Err(too_large)
    }

    /// Checks the payload that the run ends with. Nobody could handle an error there, so the run is
    /// blocked.
    pub(crate) fn check_end_size(&self, what: impl Display, payload: &Json) -> Result<(), Blocked> {
        if !self.commands.is_live() {
            return Ok(());
        }
        let blocked = |TooLarge { size, limit }| Blocked::TooLarge { what: what.to_string(), size, limit };
        self.check_limit(payload.as_str().len()).map_err(blocked)
    }

    /// Compares a size with the current limit.
    pub(crate) fn check_limit(&self, size: usize) -> Result<(), TooLarge> {
        let limit = self.payload_limit;
        if size <= limit { Ok(()) } else { Err(TooLarge { size: size as u64, limit: limit as u64 }) }
    }
}
