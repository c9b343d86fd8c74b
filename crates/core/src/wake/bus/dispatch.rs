//! Dispatch of messages from other processes to waiting claims, and the taking of hint shares.

use futures_util::future::join_all;

use super::Bus;
use crate::name::{Queue, QueueName};
use crate::wake::{ForeignJobs, Hint, Message, Transport};

/// How many shares of a hint are taken at once. Each is a round trip, so that one process does not
/// take a whole hint before the others have asked.
const MAX_HINT_SHARES_AT_ONCE: usize = 8;

impl Bus {
    /// Notifies the waiters that a message concerns.
    pub(super) async fn dispatch(&self, message: Message, transport: &dyn Transport) {
        match message {
            Message::Wake(wake) => {
                self.notify_waiters(&wake);
            }
            Message::ForeignJobs(ForeignJobs { type_name, hint }) => {
                let name = QueueName::new(&type_name).ok().filter(|name| self.wait_queues.is_known(name));
                match (name, hint) {
                    (Some(name), Some(hint)) => self.notify_by_hint(&name, hint, transport).await,
                    (Some(name), None) => self.notify_each(&self.wait_queues.known_queues(Some(&name))),
                    // A queue of Tidemill without a worker in this process.
                    (None, Some(hint)) if hint.is_ours() => {}
                    (None, Some(hint)) => self.notify_each_by_hint(hint, transport).await,
                    (None, None) => self.notify_each(&self.wait_queues.known_queues(None)),
                }
            }
        }
    }

    /// Notifies one waiter of each queue, because the message has no count.
    fn notify_each(&self, queues: &[Queue]) {
        for queue in queues {
            self.wait_queues.notify(queue, usize::MAX);
        }
    }

    /// Notifies waiters of the queues with this name, taking one share of the hint for each, until
    /// either runs out.
    async fn notify_by_hint(&self, name: &QueueName, hint: Hint, transport: &dyn Transport) {
        for queue in self.wait_queues.known_queues(Some(name)) {
            // Only the current waiters: one that polls in vain and waits again is not notified
            // twice for the same hint.
            let mut waiting = self.wait_queues.waiting(&queue);
            while waiting > 0 {
                let asked = waiting.min(MAX_HINT_SHARES_AT_ONCE);
                let shares = join_all((0..asked).map(|_| transport.take_hint(&hint))).await;
                let taken = shares.iter().filter(|taken| **taken).count();
                self.wait_queues.notify(&queue, taken);
                if taken < asked {
                    return;
                }
                waiting -= asked;
            }
            // There may be more jobs than the waiters took, so the next claim polls first. But if a
            // claim waits again already, it has seen that there are none.
            if self.wait_queues.waiting(&queue) == 0 {
                self.wait_queues.notify(&queue, 1);
            }
        }
    }

    /// Jobs whose type is not a queue here may be in any queue: notifies one waiter of each, taking
    /// one share of the hint for each.
    async fn notify_each_by_hint(&self, hint: Hint, transport: &dyn Transport) {
        for queue in self.wait_queues.known_queues(None) {
            if self.wait_queues.waiting(&queue) > 0 && !transport.take_hint(&hint).await {
                return;
            }
            self.wait_queues.notify(&queue, 1);
        }
    }
}
