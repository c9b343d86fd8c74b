//! From a message to those it concerns: who is called, and what that takes of a hint.

use futures_util::future::join_all;

use super::Bus;
use crate::name::{Queue, QueueName};
use crate::wake::{ForeignJobs, Hint, Message, Transport};

/// How many shares of a hint are asked for at once: a trip each, so that one process does not take a whole
/// hint before the others have asked.
const MAX_HINT_SHARES_AT_ONCE: usize = 8;

impl Bus {
    /// Calls whom a message concerns.
    pub(super) async fn dispatch(&self, message: Message, transport: &dyn Transport) {
        match message {
            Message::Wake(wake) => {
                self.ring(&wake);
            }
            Message::ForeignJobs(ForeignJobs { type_name, hint }) => {
                let name = QueueName::new(&type_name).ok().filter(|name| self.wait_queues.is_known(name));
                match (name, hint) {
                    (Some(name), Some(hint)) => self.notify_by_hint(&name, hint, transport).await,
                    (Some(name), None) => self.notify_each(&self.wait_queues.known_queues(Some(&name))),
                    // A queue of ours that nobody works on here.
                    (None, Some(hint)) if hint.is_ours() => {}
                    (None, Some(hint)) => self.notify_each_by_hint(hint, transport).await,
                    (None, None) => self.notify_each(&self.wait_queues.known_queues(None)),
                }
            }
        }
    }

    /// Calls one of each: nobody said how many there are.
    fn notify_each(&self, queues: &[Queue]) {
        for queue in queues {
            self.wait_queues.notify(queue, usize::MAX);
        }
    }

    /// Calls those who wait for the queues of this name, for a share of the hint each, while there are both.
    async fn notify_by_hint(&self, name: &QueueName, hint: Hint, transport: &dyn Transport) {
        for queue in self.wait_queues.known_queues(Some(name)) {
            // Those who wait now: whoever looks in vain and comes back is not called again for the same hint.
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
            // There may be more jobs than those who waited took: whoever comes next looks first. But if
            // somebody is back already, it has seen that there are none.
            if self.wait_queues.waiting(&queue) == 0 {
                self.wait_queues.notify(&queue, 1);
            }
        }
    }

    /// Jobs of a type that is no queue here may be in any: calls one of each, for a share of the hint.
    async fn notify_each_by_hint(&self, hint: Hint, transport: &dyn Transport) {
        for queue in self.wait_queues.known_queues(None) {
            if self.wait_queues.waiting(&queue) > 0 && !transport.take_hint(&hint).await {
                return;
            }
            self.wait_queues.notify(&queue, 1);
        }
    }
}
