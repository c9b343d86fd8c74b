//! Bringing back jobs whose worker died: read a page of expired leases, decide each, make it stick.
//!
//! Any process may do this at any time. It decides from the envelope alone, never from the handlers that
//! happen to be registered here, so a process that does not know a kind does not harm its jobs.

use std::time::Duration;

use crate::name::Delivery;
use crate::name::Queue;
use crate::settle::Change;
use crate::settle::{Settlement, decide_expired, decide_forgotten, decide_malformed};
use crate::store::{Error, Expired, Hold, Store, Verdict};

/// How many leases one page holds: one page is one round trip, and bounds what a store does at once.
const PAGE: usize = 256;

/// Rescues every expired lease of `queue`, page by page. Returns how many jobs were freed.
pub async fn rescue(store: &dyn Store, queue: &Queue, lease: Duration) -> Result<u64, Error> {
    let (mut rescued, mut cursor) = (0, None);
    loop {
        let page = store.expired(Expired { queue, lease, cursor, limit: PAGE }).await?;
        let settlements: Vec<_> = page.items.into_iter().map(|hold| verdict_on(store, hold)).collect();
        if !settlements.is_empty() {
            let verdicts = store.rescue(&settlements).await?;
            rescued += verdicts.iter().filter(|verdict| **verdict == Verdict::Accepted).count() as u64;
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(rescued);
        }
    }
}

fn verdict_on(store: &dyn Store, hold: Hold) -> Settlement {
    let now = store.clock().now();
    let claimed = hold.claimed;
    let change = match &claimed.body {
        // Taken when it was claimed: whoever had it, it does not come back. Whoever waits for it is told.
        Ok(envelope) if claimed.lease.queue.delivery == Delivery::AtMostOnce => {
            decide_forgotten(envelope, now)
        }
        Err(_) if claimed.lease.queue.delivery == Delivery::AtMostOnce => Change::Finish(None),
        Ok(envelope) => decide_expired(envelope, claimed.started, now),
        Err((raw, error)) => decide_malformed(&claimed.lease, raw, error, now),
    };
    Settlement { lease: claimed.lease, change }
}
