//! From a tiding to those it concerns: who is called, and what that takes of a hint.

use futures_util::future::join_all;

use super::Hub;
use crate::courier::{Courier, Hint, Scheduled, Tiding};
use crate::name::{Queue, QueueName};

/// How many shares of a hint are asked for at once: a trip each, so that one process does not take a whole
/// hint before the others have asked.
const AT_ONCE: usize = 8;

impl Hub {
    /// Calls whom a tiding concerns.
    pub(super) async fn hear(&self, tiding: Tiding, courier: &dyn Courier) {
        match tiding {
            Tiding::Wake(wake) => {
                self.ring(&wake);
            }
            Tiding::Scheduled(Scheduled { type_name, hint }) => {
                let name = QueueName::new(&type_name).ok().filter(|name| self.bells.knows(name));
                match (name, hint) {
                    (Some(name), Some(hint)) => self.share(&name, hint, courier).await,
                    (Some(name), None) => self.call_each(&self.bells.known(Some(&name))),
                    // A queue of ours that nobody works on here.
                    (None, Some(hint)) if hint.is_ours() => {}
                    (None, Some(hint)) => self.share_with_each(hint, courier).await,
                    (None, None) => self.call_each(&self.bells.known(None)),
                }
            }
        }
    }

    /// Calls one of each: nobody said how many there are.
    fn call_each(&self, queues: &[Queue]) {
        for queue in queues {
            self.bells.ring(queue, usize::MAX);
        }
    }

    /// Calls those who wait for the queues of this name, for a share of the hint each, while there are both.
    async fn share(&self, name: &QueueName, hint: Hint, courier: &dyn Courier) {
        for queue in self.bells.known(Some(name)) {
            // Those who wait now: whoever looks in vain and comes back is not called again for the same hint.
            let mut waiting = self.bells.waiting(&queue);
            while waiting > 0 {
                let asked = waiting.min(AT_ONCE);
                let shares = join_all((0..asked).map(|_| courier.take(&hint))).await;
                let taken = shares.iter().filter(|taken| **taken).count();
                self.bells.ring(&queue, taken);
                if taken < asked {
                    return;
                }
                waiting -= asked;
            }
            // There may be more jobs than those who waited took: whoever comes next looks first. But if
            // somebody is back already, it has seen that there are none.
            if self.bells.waiting(&queue) == 0 {
                self.bells.ring(&queue, 1);
            }
        }
    }

    /// Jobs of a type that is no queue here may be in any: calls one of each, for a share of the hint.
    async fn share_with_each(&self, hint: Hint, courier: &dyn Courier) {
        for queue in self.bells.known(None) {
            if self.bells.waiting(&queue) > 0 && !courier.take(&hint).await {
                return;
            }
            self.bells.ring(&queue, 1);
        }
    }
}
