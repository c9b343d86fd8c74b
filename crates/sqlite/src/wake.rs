//! Wake-ups inside this process. Those from other processes come in as [`Wake::Everything`]: the writer sees
//! that somebody wrote, not what.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream;
use tidemill_core::Queue;
use tidemill_core::bell::{Bells, Pace};
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

/// Tells everyone in this process who waits or listens.
#[derive(Debug, Clone)]
pub(crate) struct Announcer {
    sender: broadcast::Sender<Wake>,
    /// Where claims wait. Every change is rung for, so there is nothing to look for in between.
    bells: Arc<Bells>,
    /// How many want to hear of other processes.
    ears: Arc<AtomicUsize>,
}

impl Announcer {
    pub(crate) fn new() -> Self {
        let (bells, ears) = (Arc::new(Bells::new(Pace::NEVER)), Arc::default());
        Self { sender: broadcast::Sender::new(BACKLOG), bells, ears }
    }

    pub(crate) fn bells(&self) -> &Bells {
        &self.bells
    }

    pub(crate) fn is_heard(&self) -> bool {
        self.ears.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn announce(&self, announcements: Announcements) {
        announcements.wakes.into_iter().for_each(|wake| self.tell(wake));
    }

    pub(crate) fn tell(&self, wake: Wake) {
        match &wake {
            Wake::Queue { queue, jobs } => drop(self.bells.ring(queue, *jobs)),
            // Somebody has to look to learn when.
            Wake::Sooner(queue) => drop(self.bells.ring(queue, 1)),
            Wake::Everything => drop(self.bells.ring_everyone()),
            Wake::Cancel(_) | Wake::Lost(_) | Wake::Finished(_) => {}
        }
        // Nobody listening is fine.
        let _ = self.sender.send(wake);
    }

    /// Somebody wants to hear of other processes, and whether it is the first: then the writer has to be told
    /// to look at them.
    pub(crate) fn hear(&self) -> (Ear, bool) {
        let is_first = self.ears.fetch_add(1, Ordering::SeqCst) == 0;
        (Ear(self.ears.clone()), is_first)
    }

    pub(crate) fn listen(&self, ear: Ear) -> Listener {
        Listener { receiver: self.sender.subscribe(), _ear: ear }
    }
}

/// Somebody who wants to hear of other processes.
#[derive(Debug)]
pub(crate) struct Ear(Arc<AtomicUsize>);

impl Drop for Ear {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Hears what is announced from its creation on.
#[derive(Debug)]
pub(crate) struct Listener {
    receiver: broadcast::Receiver<Wake>,
    _ear: Ear,
}

impl Listener {
    /// The next wake-up. Never ends: when the store is gone, nothing happens any more.
    async fn next(&mut self) -> Wake {
        match self.receiver.recv().await {
            Ok(wake) => wake,
            Err(RecvError::Lagged(_)) => Wake::Everything,
            Err(RecvError::Closed) => pending().await,
        }
    }

    pub(crate) fn into_stream(self) -> Wakes {
        Box::pin(stream::unfold(self, async |mut listener| Some((listener.next().await, listener))))
    }
}
