//! What has been settled by calls that failed as a whole, because others had locked a part of it.
//!
//! A caller repeats a call that failed, and then learns of each claim what became of it.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Callers that never come back leave something here; more than this is forgotten.
const MOST: usize = 10_000;

/// The numbers of claims that were ended without an answer.
#[derive(Default)]
pub(crate) struct Halves(Mutex<HashSet<i64>>);

impl Halves {
    /// Takes out of `claims` those that have ended already, and returns their places.
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
        if ended.len() > MOST {
            ended.clear();
        }
        ended.extend(numbers);
    }
}
