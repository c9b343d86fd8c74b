//! The lease guard: dropping it releases the job's session or waiter.

use std::sync::Arc;

use tidemill_core::HolderId;
use tidemill_core::fleet::SessionId;

use super::pool::BrowserPool;

/// A session, or a waiter for one.
pub(super) struct LeaseGuard {
    pool: Arc<BrowserPool>,
    session: SessionId,
    holder: HolderId,
}

impl LeaseGuard {
    pub(super) fn new(pool: Arc<BrowserPool>, holder: HolderId) -> Self {
        Self { pool, session: SessionId::generate(), holder }
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// The largest output of a built-in job, in bytes.
    pub(super) fn max_output_bytes(&self) -> usize {
        self.pool.browsers.max_output_bytes
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        self.pool.release(self.session.clone(), self.holder.clone());
    }
}
