//! `fix`: makes keys usable again that another program has damaged.

use tidemill_core::store::{Finding, Severity};
use tidemill_core::{Clock as _, Error};

use crate::store::RedisStore;

impl RedisStore {
    /// Renames damaged keys, so that they can be inspected and are recreated on demand; restores
    /// the positions of paused queues.
    pub(super) async fn fix_damage(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        let damaged = self.damaged_keys().await?.into_iter();
        for (shard, damaged_key) in
            damaged.filter(|(shard, damaged_key)| !self.belongs_to_run(*shard, damaged_key))
        {
            let aside = format!("{}:damaged-{}", damaged_key.key, self.clock.now().0);
            let rename = redis::cmd("RENAME").arg(&damaged_key.key).arg(&aside).take();
            self.connections.query::<()>(shard, &rename).await?;
            findings.push(Finding::new(
                Severity::Warning,
                "damaged key",
                format!("{damaged_key}: renamed to `{aside}`"),
            ));
        }
        for info in self.queue_infos().await?.into_iter().filter(|info| !info.problems.is_empty()) {
            if info.paused {
                self.pause_queue(&info.queue).await?;
                let message = format!("the position of the paused queue {} is restored", info.queue);
                findings.push(Finding::new(Severity::Warning, format!("queue {}", info.queue), message));
            }
        }
        Ok(findings)
    }
}
