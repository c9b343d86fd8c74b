//! A store decorator with [kill points](crate::kill_points) around claims and settlements.

use std::sync::Arc;

use async_trait::async_trait;
use tidemill::Error;
use tidemill::settle::{Change, Settlement};
use tidemill::store::{ClaimParams, Claimed, Decorator, Fence, SettleParams, Store, Verdict};

use crate::kill_points::{KillPoint, KillSwitch};

/// The decorated store.
#[derive(Debug)]
pub struct KillPointStore {
    /// The real store.
    pub inner: Arc<dyn Store>,
    /// The planned signal of the worker.
    pub kill_switch: Arc<KillSwitch>,
}

impl KillPointStore {
    fn reach(&self, settlements: &[Settlement], commit: KillPoint, delivery: KillPoint) {
        for settlement in settlements {
            match settlement.change {
                Change::Commit(_) => self.kill_switch.reach(commit),
                Change::Deliver(_) => self.kill_switch.reach(delivery),
                Change::Finish(_) | Change::Continue(_) | Change::Requeue { .. } | Change::Bury(_) => {}
            }
        }
    }
}

#[async_trait]
impl Decorator for KillPointStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn claim(&self, claim: ClaimParams<'_>) -> Result<Vec<Claimed>, Error> {
        let claimed = self.inner.claim(claim).await?;
        claimed.iter().for_each(|_| self.kill_switch.reach(KillPoint::Claimed));
        Ok(claimed)
    }

    async fn settle(&self, settle: SettleParams<'_>) -> Result<Vec<Verdict>, Error> {
        if settle.fence == Fence::Expired {
            return self.inner.settle(settle).await;
        }
        self.reach(settle.settlements, KillPoint::Commits, KillPoint::Delivers);
        let verdicts = self.inner.settle(settle).await?;
        self.reach(settle.settlements, KillPoint::Committed, KillPoint::Delivered);
        Ok(verdicts)
    }
}
