//! The planned faults of a proxy, shared by all its connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// A request whose answer to drop.
struct DroppedAnswer {
    /// A text in the request.
    text: String,
    /// How many such requests to forward first.
    after: usize,
}

/// The planned faults.
#[derive(Default)]
pub(super) struct FaultPlan {
    /// The number of cuts. A connection is cut when it changes.
    cuts: watch::Sender<u64>,
    /// Whether data is held.
    held: watch::Sender<bool>,
    /// The request whose answer to drop.
    drop_answer: Mutex<Option<DroppedAnswer>>,
    dropped: AtomicUsize,
}

impl FaultPlan {
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    pub(super) fn set_held(&self, held: bool) {
        self.held.send_replace(held);
    }

    pub(super) fn drop_answer_to(&self, text: &str, after: usize) {
        let dropped = DroppedAnswer { text: text.to_owned(), after };
        *self.drop_answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(dropped);
    }

    pub(super) fn drop_nothing(&self) {
        *self.drop_answer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn answers_dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether to drop the answer to this request. True at most once per plan.
    pub(super) fn drops_answer_to(&self, request: &[u8]) -> bool {
        let mut drop_answer = self.drop_answer.lock().unwrap_or_else(PoisonError::into_inner);
        let is_match = |drop_answer: &mut DroppedAnswer| {
            let found = contains(request, drop_answer.text.as_bytes());
            let is_match = found && drop_answer.after == 0;
            drop_answer.after = drop_answer.after.saturating_sub(usize::from(found));
            is_match
        };
        drop_answer.take_if(is_match).is_some()
    }

    pub(super) fn record_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Completes at the next cut after this call.
    pub(super) fn wait_for_cut(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut cuts = self.cuts.subscribe();
        async move {
            // The plan outlives its connections; it ends with the proxy.
            let _ = cuts.changed().await;
        }
    }

    /// Completes when data is not held.
    pub(super) async fn wait_until_open(&self) {
        let _ = self.held.subscribe().wait_for(|held| !held).await;
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}
