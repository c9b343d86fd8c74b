//! What is to go wrong next, shared by all lines of a proxy.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// The orders in force.
#[derive(Default)]
pub(super) struct Plan {
    /// Counts the cuts: a line that sees a number other than its first is cut.
    cuts: watch::Sender<u64>,
    /// Whether nothing passes.
    held: watch::Sender<bool>,
    /// The request whose answer is to be dropped, by a part of it.
    doomed: Mutex<Option<String>>,
    dropped: AtomicUsize,
}

impl Plan {
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    pub(super) fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }

    pub(super) fn drop_answer_to(&self, text: &str) {
        *self.doomed.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
    }

    pub(super) fn answers_dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether the answer to this request is the one to be dropped. Only the first to ask is told so.
    pub(super) fn dooms(&self, request: &[u8]) -> bool {
        let mut doomed = self.doomed.lock().unwrap_or_else(PoisonError::into_inner);
        doomed.take_if(|text| contains(request, text.as_bytes())).is_some()
    }

    pub(super) fn note_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Completes at the next cut after this call.
    pub(super) fn until_cut(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut cuts = self.cuts.subscribe();
        async move {
            // The plan outlives its lines; if it is gone, so is the proxy.
            let _ = cuts.changed().await;
        }
    }

    /// Completes while nothing is held back.
    pub(super) async fn until_open(&self) {
        let _ = self.held.subscribe().wait_for(|held| !held).await;
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}
