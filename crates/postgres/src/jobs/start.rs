//! `start`: marks leased jobs as started.

use std::collections::HashSet;

use tidemill_core::Error;
use tidemill_core::store::{StartParams, Verdict};

use super::{number, sorted};
use crate::Inner;
use crate::error::is_locked;
use crate::sql::{START, START_UNLOCKED};

impl Inner {
    /// LowWaterMarks leased jobs as started. A lease that another transaction keeps locked counts
    /// as lost: that transaction is about to end it.
    pub(crate) async fn start(&self, start: StartParams<'_>) -> Result<Vec<Verdict>, Error> {
        if start.leases.is_empty() {
            return Ok(Vec::new());
        }
        let tokens = sorted(start.leases);
        let rows = match self.pool.query(&START, &[&tokens]).await {
            Err(error) if is_locked(&error) => self.pool.query(&START_UNLOCKED, &[&tokens]).await?,
            rows => rows?,
        };
        let current: HashSet<i64> = rows.iter().map(|row| row.get("seq")).collect();
        let verdict = |current| if current { Verdict::Accepted } else { Verdict::LeaseLost };
        Ok(start.leases.iter().map(|lease| verdict(current.contains(&number(lease)))).collect())
    }
}
