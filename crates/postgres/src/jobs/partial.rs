//! Partial settles: claims that were ended by calls that failed as a whole, because another
//! transaction had locked some of them.
//!
//! The caller repeats such a call, and then learns the result of each claim.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Callers that do not retry leave entries here. Beyond this number all are dropped.
const MAX_REMEMBERED_CLAIMS: usize = 10_000;

/// The numbers of claims that were ended in calls that returned an error.
#[derive(Default)]
pub(crate) struct PartialSettles(Mutex<HashSet<i64>>);

impl PartialSettles {
    /// Removes from `claims` those that have ended already, and returns their indexes.
    pub(super) fn take(&self, claims: &mut Vec<(i64, usize)>) -> Vec<usize> {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.is_empty() {
            return Vec::new();
        }
        let (known, open): (Vec<_>, Vec<_>) = claims.drain(..).partition(|(number, _)| ended.remove(number));
        *claims = open;
        known.into_iter().map(|(_, at)| at).collect()
    }

    pub(super) fn remember(&self, numbers: impl Iterator<Item = i64>) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() > MAX_REMEMBERED_CLAIMS {
            ended.clear();
        }
        ended.extend(numbers);
    }
}
