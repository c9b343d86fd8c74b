//! The log of an outage: one line when it begins, one when it is over.

use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_core::Error;

use crate::options::Options;

/// Whether the server is away.
#[derive(Debug)]
pub(super) struct Outage {
    place: String,
    lasts: AtomicBool,
}

impl Outage {
    pub(super) fn of(options: &Options) -> Self {
        Self { place: options.place(), lasts: AtomicBool::new(false) }
    }

    pub(super) fn begins(&self, error: &Error) {
        if !self.lasts.swap(true, Ordering::Relaxed) {
            let (place, error) = (&self.place, error.full_message());
            tracing::warn!(
                "no wake-ups through redis {place}: work is found by looking until it is back: {error}"
            );
        }
    }

    pub(super) fn is_over(&self) {
        if self.lasts.swap(false, Ordering::Relaxed) {
            tracing::info!("wake-ups go through redis {} again", self.place);
        }
    }
}
