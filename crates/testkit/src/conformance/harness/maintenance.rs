//! The calls of maintenance: promote and rescue.

use std::time::Instant;

use tidemill_core::settle::expired;
use tidemill_core::store::{
    Claimed, ExpiredLease, ExpiredLeases, ListExpiredParams, PromoteParams, Promoted,
};

use super::{POLL_INTERVAL, QueueHarness, WAIT_TIMEOUT, until};

impl QueueHarness {
    /// Promotes due jobs, once.
    pub async fn promote(&self) -> Promoted {
        let queues = [self.queue.clone()];
        self.store.promote(PromoteParams { queues: &queues, limit: 1000 }).await.unwrap()
    }

    /// Promotes and claims until there are `count` jobs.
    pub async fn claim_when_due(&self, count: usize) -> Vec<Claimed> {
        let (mut claimed, begun) = (Vec::new(), Instant::now());
        while claimed.len() < count {
            assert!(begun.elapsed() < WAIT_TIMEOUT, "{} of {count} jobs became ready", claimed.len());
            self.promote().await;
            let missing = count - claimed.len();
            claimed.extend(self.claim_with(missing, missing, POLL_INTERVAL).await);
        }
        self.keep_started(claimed, count).await
    }

    /// One page of expired leases of any queue.
    pub async fn expired(&self, cursor: Option<String>, limit: usize) -> ExpiredLeases {
        let queues = [self.queue.clone()];
        let expired = ListExpiredParams { queues: &queues, lease: self.lease, cursor, limit };
        self.store.list_expired(expired).await.unwrap()
    }

    /// All expired leases of this queue, page by page.
    pub async fn all_expired(&self, limit: usize) -> Vec<ExpiredLease> {
        let mut page = self.expired(None, limit).await;
        let mut holds = std::mem::take(&mut page.leases);
        while page.next.is_some() {
            page = self.expired(page.next, limit).await;
            holds.append(&mut page.leases);
        }
        holds.retain(|hold| hold.claimed.lease.queue == self.queue);
        holds
    }

    /// Waits until `count` leases have expired.
    pub async fn expire(&self, count: usize) -> Vec<ExpiredLease> {
        until("leases to run out", || async {
            let holds = self.all_expired(100).await;
            (holds.len() >= count).then_some(holds)
        })
        .await
    }

    /// Rescues expired leases in all queues, once.
    pub async fn rescue(&self) -> u64 {
        let queues = [self.queue.clone()];
        expired::rescue(&*self.store, &queues, self.lease).await.unwrap()
    }

    /// Waits until `count` leases have expired, and rescues them.
    pub async fn expire_and_rescue(&self, count: u64) {
        self.expire(count as usize).await;
        assert_eq!(self.rescue().await, count);
    }
}
