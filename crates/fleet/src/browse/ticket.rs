//! A job's claim on a browser: whatever becomes of the job, dropping it gives back what it stands for.

use std::sync::Arc;

use tidemill_core::HolderId;
use tidemill_core::fleet::SessionId;

use super::desk::Desk;

/// A session, or a place in the line for one.
pub(super) struct Ticket {
    desk: Arc<Desk>,
    session: SessionId,
    holder: HolderId,
}

impl Ticket {
    pub(super) fn new(desk: Arc<Desk>, holder: HolderId) -> Self {
        Self { desk, session: SessionId::generate(), holder }
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// The largest output of a built-in job.
    pub(super) fn largest_output(&self) -> usize {
        self.desk.browsers.largest_output
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.desk.take_back(self.session.clone(), self.holder.clone());
    }
}
