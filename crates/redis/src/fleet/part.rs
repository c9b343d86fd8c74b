//! Removing workers from the fleet.

use tidemill_core::Error;
use tidemill_core::fleet::{WorkerDefaults, WorkerKey};

use crate::jobs::portions;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn remove_members(&self, members: &[WorkerKey]) -> Result<(), Error> {
        for portion in portions((0..members.len()).collect(), |_| 0) {
            let mut call = self.call_on_fleet(&self.registry.scripts.part, WorkerDefaults::default());
            portion.iter().for_each(|&position| call.push(members[position].to_string()));
            self.ask_fleet(call).await?;
        }
        Ok(())
    }
}
