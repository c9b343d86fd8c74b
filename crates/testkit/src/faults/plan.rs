//! What is to go wrong next, shared by all lines of a proxy.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// A request whose answer is to be dropped.
struct Doomed {
    /// What it contains.
    text: String,
    /// How many such requests pass before it.
    after: usize,
}

/// The orders in force.
#[derive(Default)]
pub(super) struct Plan {
    /// Counts the cuts: a line that sees a number other than its first is cut.
    cuts: watch::Sender<u64>,
    /// Whether nothing passes.
    held: watch::Sender<bool>,
    /// The request whose answer is to be dropped, by a part of it.
    doomed: Mutex<Option<Doomed>>,
    dropped: AtomicUsize,
}

impl Plan {
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    pub(super) fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }

    pub(super) fn drop_answer_to(&self, text: &str, after: usize) {
        let doomed = Doomed { text: text.to_owned(), after };
        *self.doomed.lock().unwrap_or_else(PoisonError::into_inner) = Some(doomed);
    }

    pub(super) fn drop_nothing(&self) {
        *self.doomed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn answers_dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether the answer to this request is the one to be dropped. Only the first to ask is told so.
    pub(super) fn dooms(&self, request: &[u8]) -> bool {
        let mut doomed = self.doomed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |doomed: &mut Doomed| {
            let found = contains(request, doomed.text.as_bytes());
            let is_it = found && doomed.after == 0;
            doomed.after = doomed.after.saturating_sub(usize::from(found));
            is_it
        };
        doomed.take_if(is_it).is_some()
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
