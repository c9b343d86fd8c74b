//! Hints that this process created recently. It receives its own messages, too, but has nothing to
//! do for them, and must not take shares that other processes need.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::hint::Hint;

/// A message returns within moments, so these cover at least the last few seconds.
const MAX_REMEMBERED_HINTS: usize = 4_096;

/// Hints of this process.
#[derive(Debug, Default)]
pub(super) struct OwnHints(Mutex<VecDeque<Hint>>);

impl OwnHints {
    /// Records a hint of this process.
    pub(super) fn add(&self, hint: Hint) {
        let mut hints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hints.len() >= MAX_REMEMBERED_HINTS {
            hints.pop_front();
        }
        hints.push_back(hint);
    }

    /// Removes a hint; returns whether this process created it. Each returns once.
    pub(super) fn take(&self, hint: &Hint) -> bool {
        let mut hints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = hints.iter().position(|own| own == hint);
        found.and_then(|index| hints.remove(index)).is_some()
    }
}
