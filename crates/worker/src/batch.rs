//! Settlements that make one trip together, and what is left to do for each job afterwards.

use std::time::Instant;

use tidemill_core::settle::Settlement;
use tidemill_core::store::Verdict;

use crate::outbox::Note;

/// Settlements and their notes, in the same order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    settlements: Vec<Settlement>,
    notes: Vec<Note>,
    /// When the first trip began that got no answer, and may have settled what is not found any more.
    pub(crate) unknown_since: Option<Instant>,
}

impl Batch {
    pub(crate) fn push(&mut self, settlement: Settlement, note: Note) {
        self.settlements.push(settlement);
        self.notes.push(note);
    }

    pub(crate) fn settlements(&self) -> &[Settlement] {
        &self.settlements
    }

    pub(crate) fn into_notes(self) -> Vec<Note> {
        self.notes
    }

    pub(crate) fn len(&self) -> usize {
        self.notes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Takes out the settlements of which the store does not know what became of them.
    pub(crate) fn take_unknown(&mut self, verdicts: &[Verdict]) -> Self {
        let mut unknown = Self { unknown_since: self.unknown_since, ..Self::default() };
        if !verdicts.contains(&Verdict::Unknown) {
            return unknown;
        }
        let settlements = std::mem::take(&mut self.settlements).into_iter();
        let notes = std::mem::take(&mut self.notes).into_iter();
        for ((settlement, note), verdict) in settlements.zip(notes).zip(verdicts) {
            let batch = if *verdict == Verdict::Unknown { &mut unknown } else { &mut *self };
            batch.push(settlement, note);
        }
        unknown
    }

    /// Two halves; one that cannot be halved stays whole.
    pub(crate) fn split(mut self) -> impl Iterator<Item = Self> {
        let half = self.len().div_ceil(2);
        let (settlements, notes) = (self.settlements.split_off(half), self.notes.split_off(half));
        let rest = Self { settlements, notes, unknown_since: self.unknown_since };
        [self, rest].into_iter().filter(|batch| !batch.is_empty())
    }
}
