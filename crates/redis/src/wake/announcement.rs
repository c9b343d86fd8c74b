//! Announcements of jobs by other processes: which waiting claims poll for them. A hint counts how
//! many claims of all processes have yet to poll, and each takes a share of it.

use std::sync::Arc;

use futures_util::future::join_all;
use tidemill_core::wake::Bus;
use tidemill_core::{Queue, QueueName};
use tokio::sync::mpsc;

use super::hint::Hint;
use super::transport::TransportState;

/// How many shares of a hint are taken at once. Each is a round trip, so that one process does not
/// take a whole hint before the others have asked.
const MAX_HINT_SHARES_AT_ONCE: usize = 8;

/// An announcement of jobs by a program that may know nothing of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Announcement {
    /// The type of the jobs; in Tidemill, the name of a queue.
    pub(super) type_name: String,
    /// The counter of how many claims may poll for them, if there is one.
    pub(super) hint: Option<Hint>,
}

/// Takes the shares of a hint.
pub(super) trait TakeHint {
    /// Takes one share. Returns whether one was left.
    async fn take_hint(&self, hint: &Hint) -> bool;
}

/// Handles announcements one after the other. A task of its own: taking shares must not delay other
/// messages.
pub(super) async fn run(
    state: &Arc<TransportState>,
    bus: &Bus,
    mut announcements: mpsc::Receiver<Announcement>,
) {
    while let Some(announcement) = announcements.recv().await {
        dispatch(&announcement, bus, &**state).await;
    }
}

/// Notifies the claims that an announcement concerns.
async fn dispatch(Announcement { type_name, hint }: &Announcement, bus: &Bus, hints: &impl TakeHint) {
    let queues = bus.wait_queues();
    let name = QueueName::new(type_name).ok().filter(|name| queues.is_known(name));
    match (name, hint) {
        (Some(name), Some(hint)) => notify_by_hint(&queues.known_queues(Some(&name)), hint, bus, hints).await,
        (Some(name), None) => notify_each(&queues.known_queues(Some(&name)), bus),
        // A queue of Tidemill without a worker in this process.
        (None, Some(hint)) if hint.is_ours() => {}
        (None, Some(hint)) => notify_each_by_hint(hint, bus, hints).await,
        (None, None) => notify_each(&queues.known_queues(None), bus),
    }
}

/// Notifies one waiter of each queue, because the message has no count.
fn notify_each(queues: &[Queue], bus: &Bus) {
    for queue in queues {
        bus.wait_queues().notify(queue, usize::MAX);
    }
}

/// Notifies waiters of these queues, taking one share of the hint for each, until either runs out.
async fn notify_by_hint(queues: &[Queue], hint: &Hint, bus: &Bus, hints: &impl TakeHint) {
    let wait_queues = bus.wait_queues();
    for queue in queues {
        // Only the current waiters: one that polls in vain and waits again is not notified twice
        // for the same hint.
        let mut waiting = wait_queues.waiting(queue);
        while waiting > 0 {
            let asked = waiting.min(MAX_HINT_SHARES_AT_ONCE);
            let shares = join_all((0..asked).map(|_| hints.take_hint(hint))).await;
            let taken = shares.iter().filter(|taken| **taken).count();
            wait_queues.notify(queue, taken);
            if taken < asked {
                return;
            }
            waiting -= asked;
        }
        // There may be more jobs than the waiters took, so the next claim polls first. But if a
        // claim waits again already, it has seen that there are none.
        if wait_queues.waiting(queue) == 0 {
            wait_queues.notify(queue, 1);
        }
    }
}

/// Jobs whose type is not a queue here may be in any queue: notifies one waiter of each, taking one
/// share of the hint for each.
async fn notify_each_by_hint(hint: &Hint, bus: &Bus, hints: &impl TakeHint) {
    let wait_queues = bus.wait_queues();
    for queue in wait_queues.known_queues(None) {
        if wait_queues.waiting(&queue) > 0 && !hints.take_hint(hint).await {
            return;
        }
        wait_queues.notify(&queue, 1);
    }
}

#[cfg(test)]
mod tests;
