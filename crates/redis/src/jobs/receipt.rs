//! Receipts: every enqueue leaves one, so that its repeat adds nothing and returns the first
//! result.
//!
//! A key for each call would need more memory than the jobs. So a process numbers the calls of a
//! *slot*, which has one call at a time. One key for each slot has the number of the last call that
//! took effect: a call with no greater number has taken effect, or was given up. There are as many
//! slots as concurrent calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::JobId;
use tokio::time::Instant;

/// Lifetime of a receipt. Less `RENEW_AFTER`, it exceeds the time in which repeats start
/// (`retry::with_receipt`) and the transit time of a command.
pub(crate) const RECEIPT_TTL_MS: u64 = 90_000;

/// The age at which a call renews its receipt. Renewing it with every call would be a noticeable
/// part of the cost of an enqueue.
const RENEW_AFTER: Duration = Duration::from_secs(30);

/// The slots of a process.
#[derive(Debug)]
pub(crate) struct ReceiptSlots {
    /// Identifies this store in this process.
    process: String,
    /// By shard, since each has its own keys.
    slots: Mutex<HashMap<u16, ShardSlots>>,
}

#[derive(Debug, Default)]
struct ShardSlots {
    /// Slots without a call in progress. The last one used is used first.
    idle: Vec<ReceiptSlot>,
    /// The number of slots.
    count: u64,
}

#[derive(Debug, Clone, Copy)]
struct ReceiptSlot {
    id: u64,
    /// The number of its next call.
    next: u64,
    /// When its key was last known to be renewed.
    renewed: Option<Instant>,
}

/// The number of a call, which its slot's key will contain.
#[derive(Debug)]
pub(crate) struct Receipt<'a> {
    receipts: &'a ReceiptSlots,
    shard: u16,
    slot: ReceiptSlot,
    pub(crate) number: u64,
}

impl ReceiptSlots {
    pub(crate) fn new() -> Self {
        Self { process: JobId::generate().to_string(), slots: Mutex::default() }
    }

    /// Takes a slot for one call to a shard, including its repeats.
    pub(crate) fn take(&self, shard: u16) -> Receipt<'_> {
        let mut shards = self.lock();
        let slots = shards.entry(shard).or_default();
        let slot = slots.idle.pop().unwrap_or_else(|| {
            slots.count += 1;
            ReceiptSlot { id: slots.count, next: 1, renewed: None }
        });
        Receipt { receipts: self, shard, slot, number: slot.next }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, ShardSlots>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Receipt<'_> {
    /// The name of its key.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.receipts.process, self.slot.id)
    }

    /// Whether this call has to renew its key.
    pub(crate) fn needs_renewal(&self) -> bool {
        self.slot.renewed.is_none_or(|at| at.elapsed() >= RENEW_AFTER)
    }

    /// Records that the key was renewed, at this time or later.
    pub(crate) fn renewed(&mut self, at: Instant) {
        self.slot.renewed = Some(at);
    }
}

impl Drop for Receipt<'_> {
    fn drop(&mut self) {
        let idle = ReceiptSlot { next: self.number + 1, ..self.slot };
        self.receipts.lock().entry(self.shard).or_default().idle.push(idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_at_once_have_slots_of_their_own_and_later_ones_greater_numbers() {
        let receipts = ReceiptSlots::new();
        let (one, other) = (receipts.take(0), receipts.take(0));
        assert_ne!(one.name(), other.name());
        let (name, number) = (one.name(), one.number);
        drop(one);
        let next = receipts.take(0);
        assert_eq!(next.name(), name);
        assert!(next.number > number);
        assert_ne!(ReceiptSlots::new().take(0).name(), name);
    }

    #[test]
    fn a_key_is_renewed_by_the_first_answered_call_and_again_after_a_while() {
        let receipts = ReceiptSlots::new();
        assert!(receipts.take(0).needs_renewal());
        let mut second = receipts.take(0);
        assert!(second.needs_renewal(), "the first call may not have taken effect");
        second.renewed(Instant::now());
        drop(second);
        assert!(receipts.take(1).needs_renewal(), "another shard has another key");
        let mut third = receipts.take(0);
        assert!(!third.needs_renewal());
        third.renewed(Instant::now().checked_sub(RENEW_AFTER).unwrap());
        drop(third);
        assert!(receipts.take(0).needs_renewal());
    }
}
