//! Receipts: a call that adds jobs leaves one, so that its repeat adds nothing and gets the answer of the first.
//!
//! A key for each call would cost more memory than the jobs. So a process numbers the calls of a *slot*, of which one
//! after the other is under way, and one key for each slot holds the number of the last call that took effect: a call
//! whose number is not greater has taken effect, or has been given up. There are as many slots as calls at once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::JobId;
use tokio::time::Instant;

/// How long a receipt lives. Less `RENEW_AFTER`, it is longer than repeats are begun after the first call
/// (`retry::with_receipt`), and than a command is on its way.
pub(crate) const RECEIPT_MS: u64 = 90_000;

/// A receipt's life begins anew with a call this long after the last that has begun it. To do so with every call would be a
/// noticeable part of what a single enqueue costs the server.
const RENEW_AFTER: Duration = Duration::from_secs(30);

/// The slots of a process.
#[derive(Debug)]
pub(crate) struct Receipts {
    /// Names this process, or rather this store in it.
    process: String,
    /// By shard: each has keys of its own.
    slots: Mutex<HashMap<u16, Slots>>,
}

#[derive(Debug, Default)]
struct Slots {
    /// Slots without a call under way. The last one used is used first.
    idle: Vec<Slot>,
    /// How many slots there are.
    count: u64,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    id: u64,
    /// The number of its next call.
    next: u64,
    /// When its key's life was last known to begin.
    renewed: Option<Instant>,
}

/// The number of a call, to be left in its slot's key.
#[derive(Debug)]
pub(crate) struct Receipt<'a> {
    receipts: &'a Receipts,
    shard: u16,
    slot: Slot,
    pub(crate) number: u64,
}

impl Receipts {
    pub(crate) fn new() -> Self {
        Self { process: JobId::generate().to_string(), slots: Mutex::default() }
    }

    /// Takes a slot for one call to a shard, and all its repeats.
    pub(crate) fn take(&self, shard: u16) -> Receipt<'_> {
        let mut shards = self.lock();
        let slots = shards.entry(shard).or_default();
        let slot = slots.idle.pop().unwrap_or_else(|| {
            slots.count += 1;
            Slot { id: slots.count, next: 1, renewed: None }
        });
        Receipt { receipts: self, shard, slot, number: slot.next }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Slots>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Receipt<'_> {
    /// What its key is named after.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.receipts.process, self.slot.id)
    }

    /// Whether the life of its key has to begin anew with this call.
    pub(crate) fn renews(&self) -> bool {
        self.slot.renewed.is_none_or(|at| at.elapsed() >= RENEW_AFTER)
    }

    /// The life of its key has begun anew, at this time or later.
    pub(crate) fn renewed(&mut self, at: Instant) {
        self.slot.renewed = Some(at);
    }
}

impl Drop for Receipt<'_> {
    fn drop(&mut self) {
        let idle = Slot { next: self.number + 1, ..self.slot };
        self.receipts.lock().entry(self.shard).or_default().idle.push(idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_at_once_have_slots_of_their_own_and_later_ones_greater_numbers() {
        let receipts = Receipts::new();
        let (one, other) = (receipts.take(0), receipts.take(0));
        assert_ne!(one.name(), other.name());
        let (name, number) = (one.name(), one.number);
        drop(one);
        let next = receipts.take(0);
        assert_eq!(next.name(), name);
        assert!(next.number > number);
        assert_ne!(Receipts::new().take(0).name(), name);
    }

    #[test]
    fn a_key_is_renewed_by_the_first_answered_call_and_again_after_a_while() {
        let receipts = Receipts::new();
        assert!(receipts.take(0).renews());
        let mut second = receipts.take(0);
        assert!(second.renews(), "the first call may not have taken effect");
        second.renewed(Instant::now());
        drop(second);
        assert!(receipts.take(1).renews(), "another shard has another key");
        let mut third = receipts.take(0);
        assert!(!third.renews());
        third.renewed(Instant::now().checked_sub(RENEW_AFTER).unwrap());
        drop(third);
        assert!(receipts.take(0).renews());
    }
}
