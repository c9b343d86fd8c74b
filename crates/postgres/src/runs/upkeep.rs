//! Removing runs that have outlived their purpose.

use tidemill_core::Error;
use tidemill_core::store::runs::PruneRunsParams;

use super::{big, count};
use crate::Inner;
use crate::jobs::{ms, nothing};
use crate::sql::PRUNE_RUNS;

/// How many runs one statement removes: it holds their locks until it is done.
const BATCH: i64 = 500;

/// Of about how many entries, for the same reason.
const ENTRIES: i64 = 50_000;

impl Inner {
    pub(crate) async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error> {
        let rows = self
            .pool
            .query(&PRUNE_RUNS, &[&big(prune.max_kept), &ms(prune.min_age), &BATCH, &ENTRIES])
            .await?;
        Ok(count(rows.first().ok_or_else(nothing)?.get("pruned")))
    }
}
