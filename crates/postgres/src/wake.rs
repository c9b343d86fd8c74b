//! Wake-ups inside the process, and what is to be told to the others. The [`Herald`](crate::herald::Herald)
//! carries them over the wire.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream;
use tidemill_core::bell::Bells;
use tidemill_core::store::{News, Wake, Wakes};
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::timeout;

use crate::jobs::PACE;

/// How many wake-ups a slow listener may be behind before it is told to look at everything instead.
const BACKLOG: usize = 1024;

/// How long whoever makes work waits for the others to be told of it. A hint is not worth more.
const PATIENCE: Duration = Duration::from_millis(250);

/// Where everything in the process announces and listens.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Where claims wait.
    pub(crate) bells: Bells,
    /// To the listeners in this process.
    wakes: broadcast::Sender<Wake>,
    /// To the other processes.
    board: Mutex<Board>,
    /// Something was put on the board.
    pub(crate) posted: Notify,
    /// Up to which posting the others have been told.
    told: watch::Sender<u64>,
}

/// What the herald has to do.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// What to tell.
    pub(crate) news: News,
    /// How many postings there have been.
    pub(crate) postings: u64,
    /// Whether anybody here wants to hear from other processes.
    pub(crate) listening: bool,
    /// Whether the herald would leave at once.
    pub(crate) resting: bool,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self {
            bells: Bells::new(PACE),
            wakes: broadcast::Sender::new(BACKLOG),
            board: Mutex::default(),
            posted: Notify::new(),
            told: watch::Sender::new(0),
        }
    }

    /// Announces something here at once and elsewhere soon.
    pub(crate) fn announce(&self, wake: Wake) {
        self.post(wake);
    }

    /// Announces something, and returns when the others have been told, or will be within milliseconds: a
    /// program that ends right after it has made a job must not take the news with it.
    pub(crate) async fn announce_surely(&self, wake: Wake) {
        if let Some(posting) = self.post(wake) {
            let mut told = self.told.subscribe();
            let _ = timeout(PATIENCE, told.wait_for(|told| *told >= posting)).await;
        }
    }

    /// Returns the posting's number if the herald leaves with it at once.
    fn post(&self, wake: Wake) -> Option<u64> {
        let rest = rest_of(&wake, self.heard(wake.clone()))?;
        let mut board = self.board();
        board.news.add(rest);
        board.postings += 1;
        let posting = board.resting.then_some(board.postings);
        drop(board);
        self.posted.notify_one();
        posting
    }

    /// Passes on what was heard, to this process only; says how many claims were called by it.
    pub(crate) fn heard(&self, wake: Wake) -> usize {
        let called = match &wake {
            Wake::Queue { queue, jobs } => self.bells.ring(queue, *jobs),
            // Somebody has to look to learn when.
            Wake::Sooner(queue) => self.bells.ring(queue, 1),
            Wake::Everything => self.bells.ring_everyone(),
            Wake::Cancel(_) | Wake::Lost(_) | Wake::Finished(_) => 0,
        };
        // Without listeners there is nobody to tell.
        let _ = self.wakes.send(wake);
        called
    }

    /// The others have been told everything up to this posting.
    pub(crate) fn tell(&self, posting: u64) {
        self.told.send_replace(posting);
    }

    pub(crate) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens from now on, to this process and the others.
    pub(crate) fn listener(&self) -> Listener {
        let wakes = self.wakes.subscribe();
        self.hear_others();
        Listener { wakes }
    }

    /// Somebody here wants to hear what happens in other processes.
    pub(crate) fn hear_others(&self) {
        let first = !std::mem::replace(&mut self.board().listening, true);
        if first {
            self.posted.notify_one();
        }
    }
}

/// One listener's view of the wake-ups.
pub(crate) struct Listener {
    wakes: broadcast::Receiver<Wake>,
}

impl Listener {
    /// The next wake-up. Never ends: a store that is gone wakes nobody.
    pub(crate) async fn next(&mut self) -> Wake {
        match self.wakes.recv().await {
            Ok(wake) => wake,
            Err(broadcast::error::RecvError::Lagged(_)) => Wake::Everything,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }

    /// A stream of the wake-ups that holds on to `source`, without which there would be none.
    pub(crate) fn into_stream<T: Send + 'static>(self, source: T) -> Wakes {
        Box::pin(stream::unfold((self, source), |(mut listener, source)| async move {
            Some((listener.next().await, (listener, source)))
        }))
    }
}

/// What is left to tell the others when so many claims have been called here.
fn rest_of(wake: &Wake, called: usize) -> Option<Wake> {
    match wake {
        Wake::Queue { jobs, .. } if *jobs <= called => None,
        Wake::Queue { queue, jobs: usize::MAX } => Some(Wake::everyone(queue.clone())),
        Wake::Queue { queue, jobs } => Some(Wake::Queue { queue: queue.clone(), jobs: jobs - called }),
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_core::JobId;

    #[tokio::test]
    async fn a_listener_that_is_too_slow_is_told_to_look_at_everything() {
        let hub = Hub::new();
        let mut listener = hub.listener();
        for _ in 0..2 * BACKLOG {
            hub.announce(Wake::Finished(JobId::new("a").unwrap()));
        }
        assert_eq!(listener.next().await, Wake::Everything);
    }
}
