//! The hints this process has made lately. It hears its own messages like everybody else's, but has already
//! done what there was to do, and must not take shares that others need.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tidemill_core::wake::Hint;

/// A message comes back within moments, so these are the last few seconds at the very least.
const REMEMBERED: usize = 4_096;

/// Hints of our own.
#[derive(Debug, Default)]
pub(super) struct OwnHints(Mutex<VecDeque<Hint>>);

impl OwnHints {
    /// Takes note of a hint that was made here.
    pub(super) fn note(&self, hint: Hint) {
        let mut hints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hints.len() >= REMEMBERED {
            hints.pop_front();
        }
        hints.push_back(hint);
    }

    /// Whether it was made here. Each comes back once.
    pub(super) fn recognise(&self, hint: &Hint) -> bool {
        let mut hints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = hints.iter().position(|own| own == hint);
        found.and_then(|index| hints.remove(index)).is_some()
    }
}
