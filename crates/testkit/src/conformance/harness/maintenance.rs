//! What maintenance does: promote, rescue.

use std::time::Instant;

use tidemill_core::settle::expired;
use tidemill_core::store::{
    Claimed, ExpiredLease, ExpiredLeases, ListExpiredParams, PromoteParams, Promoted,
};

use super::{GLANCE, PATIENCE, Scene, until};

impl Scene {
    /// Makes due jobs ready, once.
    pub async fn promote(&self) -> Promoted {
        let queues = [self.queue.clone()];
        self.store.promote(PromoteParams { queues: &queues, limit: 1000 }).await.unwrap()
    }

    /// Promotes and claims until there are `count` jobs.
    pub async fn claim_when_due(&self, count: usize) -> Vec<Claimed> {
        let (mut claimed, begun) = (Vec::new(), Instant::now());
        while claimed.len() < count {
            assert!(begun.elapsed() < PATIENCE, "{} of {count} jobs became ready", claimed.len());
            self.promote().await;
            let missing = count - claimed.len();
            claimed.extend(self.claim_with(missing, missing, GLANCE).await);
        }
        self.keep(claimed, count).await
    }

    /// One page of leases that have run out, of whatever queue.
    pub async fn expired(&self, cursor: Option<String>, limit: usize) -> ExpiredLeases {
        let queues = [self.queue.clone()];
        let expired = ListExpiredParams { queues: &queues, lease: self.lease, cursor, limit };
        self.store.list_expired(expired).await.unwrap()
    }

    /// All leases of this queue that have run out, page by page.
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

    /// Waits until `count` leases have run out.
    pub async fn expire(&self, count: usize) -> Vec<ExpiredLease> {
        until("leases to run out", || async {
            let holds = self.all_expired(100).await;
            (holds.len() >= count).then_some(holds)
        })
        .await
    }

    /// Rescues what has expired in all queues, once.
    pub async fn rescue(&self) -> u64 {
        let queues = [self.queue.clone()];
        expired::rescue(&*self.store, &queues, self.lease).await.unwrap()
    }

    /// Waits until `count` leases have run out and are rescued.
    pub async fn expire_and_rescue(&self, count: u64) {
        self.expire(count as usize).await;
        assert_eq!(self.rescue().await, count);
    }
}
