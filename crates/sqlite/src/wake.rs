//! Wake-ups inside this process. Those from other processes come in as [`Wake::Everything`]: the writer sees
//! that somebody wrote, not what.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use tidemill_core::Queue;
use tidemill_core::wake::Bus;
use tidemill_core::wake::PollInterval;
use tidemill_core::wake::Transport;
use tidemill_core::wake::{Wake, WakeStream};

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
            Wake::DueEarlier(_) | Wake::Capacity(_) | Wake::Worker(_) if self.wakes.contains(&wake) => {}
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

/// Tells everyone who waits or listens.
#[derive(Debug, Clone)]
pub(crate) struct Announcer {
    bus: Arc<Bus>,
    /// How many want to hear of other processes.
    ears: Arc<AtomicUsize>,
}

impl Announcer {
    pub(crate) fn new(courier: Option<Arc<dyn Transport>>) -> Self {
        // Every change is rung for, so there is nothing to look for in between.
        Self { bus: Arc::new(Bus::new(PollInterval::NEVER, courier)), ears: Arc::default() }
    }

    pub(crate) fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    pub(crate) fn is_heard(&self) -> bool {
        self.ears.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn announce(&self, announcements: Announcements) {
        announcements.wakes.into_iter().for_each(|wake| self.bus.publish(wake));
    }

    /// Another process has written something.
    pub(crate) fn stir(&self) {
        self.bus.dispatch_local(Wake::Everything);
    }

    /// Somebody wants to hear of other processes, and whether it is the first: then the writer has to be told
    /// to look at them.
    pub(crate) fn hear(&self) -> (Ear, bool) {
        let is_first = self.ears.fetch_add(1, Ordering::SeqCst) == 0;
        (Ear(self.ears.clone()), is_first)
    }
}

/// Somebody who wants to hear of other processes.
#[derive(Debug)]
pub(crate) struct Ear(Arc<AtomicUsize>);

impl Ear {
    /// The wake-ups, listening to other processes for as long as anybody wants them.
    pub(crate) fn with(self, wakes: WakeStream) -> WakeStream {
        Box::pin(wakes.map(move |wake| {
            let _held = &self;
            wake
        }))
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
