//! Receipts: a call that adds jobs leaves one, so that its repeat adds nothing and gets the answer of the first.
//!
//! A key for each call would cost more memory than the jobs. So a process numbers the calls of a *slot*, of which one
//! after the other is under way, and one key for each slot holds the number of the last call that took effect: a call
//! whose number is not greater has taken effect, or has been given up. There are as many slots as calls at once.

use std::sync::{Mutex, PoisonError};

use tidemill_core::JobId;

/// How long a receipt lives: longer than any repeat comes after its first call, and than a command is on its way.
pub(crate) const RECEIPT_MS: u64 = 60_000;

/// The slots of a process.
#[derive(Debug)]
pub(crate) struct Receipts {
    /// Names this process, or rather this store in it.
    process: String,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    /// Slots without a call under way, each with the number of its next call. The last one used is used first.
    idle: Vec<(u64, u64)>,
    /// How many slots there are.
    count: u64,
}

/// The number of a call, to be left in its slot's key.
#[derive(Debug)]
pub(crate) struct Receipt<'a> {
    receipts: &'a Receipts,
    slot: u64,
    pub(crate) number: u64,
}

impl Receipts {
    pub(crate) fn new() -> Self {
        Self { process: JobId::generate().to_string(), slots: Mutex::default() }
    }

    /// Takes a slot for one call and all its repeats.
    pub(crate) fn take(&self) -> Receipt<'_> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let (slot, number) = slots.idle.pop().unwrap_or_else(|| {
            slots.count += 1;
            (slots.count, 1)
        });
        Receipt { receipts: self, slot, number }
    }
}

impl Receipt<'_> {
    /// What its key is named after.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.receipts.process, self.slot)
    }
}

impl Drop for Receipt<'_> {
    fn drop(&mut self) {
        let mut slots = self.receipts.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.idle.push((self.slot, self.number + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_at_once_have_slots_of_their_own_and_later_ones_greater_numbers() {
        let receipts = Receipts::new();
        let (one, other) = (receipts.take(), receipts.take());
        assert_ne!(one.name(), other.name());
        let (name, number) = (one.name(), one.number);
        drop(one);
        let next = receipts.take();
        assert_eq!(next.name(), name);
        assert!(next.number > number);
        assert_ne!(Receipts::new().take().name(), name);
    }
}
