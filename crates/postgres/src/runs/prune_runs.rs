//! `prune_runs`: deletes runs that ended long enough ago.

use tidemill_core::Error;
use tidemill_core::store::runs::PruneRunsParams;

use super::{to_i64, to_u64};
use crate::Inner;
use crate::connection::Params;
use crate::jobs::{ms, no_rows};
use crate::sql::PRUNE_RUNS;

/// How many runs one statement deletes: it holds their locks until it is done.
const MAX_PRUNED_RUNS: i64 = 500;

/// About how many journal entries one statement deletes, for the same reason.
const MAX_PRUNED_ENTRIES: i64 = 50_000;

impl Inner {
    pub(crate) async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error> {
        let params: Params<'_> =
            &[&to_i64(prune.max_kept), &ms(prune.min_age), &MAX_PRUNED_RUNS, &MAX_PRUNED_ENTRIES];
        let rows = self.pool.query(&PRUNE_RUNS, params).await?;
        Ok(to_u64(rows.first().ok_or_else(no_rows)?.get("pruned")))
    }
}
