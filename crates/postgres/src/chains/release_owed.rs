//! Unblocking of jobs whose chains were closed by a transaction that could not see them.

use crate::Inner;
use crate::jobs::{MAX_BATCH_ROWS, wake_texts};
use crate::sql::RELEASE_OWED;

impl Inner {
    /// Unblocks the jobs that wait for chains which were closed by transactions that could not see
    /// them. After an error the next call does it.
    pub(crate) async fn release_owed(&self) {
        match self.pool.query(&RELEASE_OWED, &[&MAX_BATCH_ROWS]).await {
            Ok(rows) => {
                let texts = rows.first().map(wake_texts).unwrap_or_default();
                texts
                    .into_iter()
                    .filter_map(|text| text.parse().ok())
                    .for_each(|wake| self.bus.publish(wake));
            }
            Err(error) => tracing::debug!(error = error.full_message(), "unblocking jobs is delayed"),
        }
    }
}
