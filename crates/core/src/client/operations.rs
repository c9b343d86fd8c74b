//! Operations on the store as a whole: its time, its check-up and pending wake-ups.

use super::Client;
use crate::clock::Timestamp;
use crate::store::{Checkup, Error, Finding};

impl Client {
    /// The time of the store's clock, with which due times and leases are compared.
    pub fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    /// Examines the store: version, durability, settings, damaged data. Changes nothing.
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn checkup(&self) -> Result<Checkup, Error> {
        self.store.checkup().await
    }

    /// Repairs damaged data without losing any. Returns what it did.
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Safe to call again; a dropped call may have repaired a part.
    pub async fn fix(&self) -> Result<Vec<Finding>, Error> {
        self.store.fix().await
    }

    /// Waits until wake-ups of earlier calls have been sent to other processes. Call it before the
    /// process ends, so that idle workers elsewhere start new jobs at once.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn flush(&self) {
        self.store.flush().await;
    }
}
