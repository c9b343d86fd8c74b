//! The log of outages: one line at the beginning, one at the end.

use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_core::Error;

use crate::options::RedisOptions;

/// Whether the server is unreachable.
#[derive(Debug)]
pub(super) struct OutageLog {
    address: String,
    is_down: AtomicBool,
}

impl OutageLog {
    pub(super) fn new(options: &RedisOptions) -> Self {
        Self { address: options.display_address(), is_down: AtomicBool::new(false) }
    }

    pub(super) fn record_failure(&self, error: &Error) {
        if !self.is_down.swap(true, Ordering::Relaxed) {
            let (address, error) = (&self.address, error.full_message());
            tracing::warn!(
                "no wake-ups through redis {address}: jobs are found by polling until it is back: {error}"
            );
        }
    }

    pub(super) fn record_success(&self) {
        if self.is_down.swap(false, Ordering::Relaxed) {
            tracing::info!("wake-ups go through redis {} again", self.address);
        }
    }
}
