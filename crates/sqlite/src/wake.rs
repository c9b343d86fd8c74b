//! Wake-ups inside this process. Those from other processes come in as [`Wake::Everything`]: the writer sees
//! that somebody wrote, not what.

use std::future::pending;

use futures_util::stream;
use tidemill_core::Queue;
use tidemill_core::store::{Wake, Wakes};
use tokio::sync::broadcast::{self, error::RecvError};

/// How many wake-ups a slow listener may fall behind before it is told to look at everything instead.
const BACKLOG: usize = 1_024;

/// What a transaction has to tell, each thing once.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    wakes: Vec<Wake>,
}

impl Announcements {
    pub(crate) fn add(&mut self, wake: Wake) {
        // A batch is about few queues, and what it says of them repeats; jobs end once each.
        match &wake {
            Wake::Queue { queue, jobs } => match self.count(queue) {
                Some(sum) => *sum = sum.saturating_add(*jobs),
                None => self.wakes.push(wake),
            },
            Wake::Sooner(_) if self.wakes.contains(&wake) => {}
            _ => self.wakes.push(wake),
        }
    }

    /// How many jobs of `queue` are announced so far, if any.
    fn count(&mut self, queue: &Queue) -> Option<&mut usize> {
        self.wakes.iter_mut().find_map(|wake| match wake {
            Wake::Queue { queue: other, jobs } if other == queue => Some(jobs),
            _ => None,
        })
    }
}

/// Tells everyone in this process who listens.
#[derive(Debug, Clone)]
pub(crate) struct Announcer {
    sender: broadcast::Sender<Wake>,
}

impl Announcer {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::Sender::new(BACKLOG) }
    }

    pub(crate) fn is_heard(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(crate) fn announce(&self, announcements: Announcements) {
        for wake in announcements.wakes {
            // Nobody listening is fine.
            let _ = self.sender.send(wake);
        }
    }

    pub(crate) fn everything(&self) {
        let _ = self.sender.send(Wake::Everything);
    }

    /// A listener, and whether it is the first: then the writer has to be told to look at other processes.
    pub(crate) fn listen(&self) -> (Listener, bool) {
        let listener = Listener { receiver: self.sender.subscribe() };
        (listener, self.sender.receiver_count() == 1)
    }
}

/// Hears what is announced from its creation on.
#[derive(Debug)]
pub(crate) struct Listener {
    receiver: broadcast::Receiver<Wake>,
}

/// Why a queue is worth another look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hint {
    /// Something was said about this queue.
    Queue,
    /// Something happened somewhere.
    Somewhere,
}

impl Listener {
    /// The next wake-up. Never ends: when the store is gone, nothing happens any more.
    pub(crate) async fn next(&mut self) -> Wake {
        match self.receiver.recv().await {
            Ok(wake) => wake,
            Err(RecvError::Lagged(_)) => Wake::Everything,
            Err(RecvError::Closed) => pending().await,
        }
    }

    /// Waits for a wake-up that concerns `queue`; what concerns others wakes nobody.
    pub(crate) async fn about(&mut self, queue: &Queue) -> Hint {
        loop {
            match self.next().await {
                Wake::Queue { queue: other, .. } | Wake::Sooner(other) if other == *queue => {
                    return Hint::Queue;
                }
                Wake::Everything => return Hint::Somewhere,
                _ => {}
            }
        }
    }

    pub(crate) fn into_stream(self) -> Wakes {
        Box::pin(stream::unfold(self, async |mut listener| Some((listener.next().await, listener))))
    }
}
