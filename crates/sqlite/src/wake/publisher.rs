//! The publisher of wake-ups inside this process. A write of another process arrives as
//! [`Wake::Everything`]: the writer detects that something was written, not what.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use tidemill_core::wake::{Bus, PollInterval, Transport, Wake, WakeStream};

use super::TransactionWakes;

/// Publishes wake-ups to the waiters and subscribers of this process.
#[derive(Debug, Clone)]
pub(crate) struct WakePublisher {
    bus: Arc<Bus>,
    /// How many listeners want wake-ups from other processes.
    listeners: Arc<AtomicUsize>,
}

impl WakePublisher {
    pub(crate) fn new(transport: Option<Arc<dyn Transport>>) -> Self {
        // Every change is published, so no waiter has to poll in between.
        Self { bus: Arc::new(Bus::new(PollInterval::NEVER, transport)), listeners: Arc::default() }
    }

    pub(crate) fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    pub(crate) fn has_listeners(&self) -> bool {
        self.listeners.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn publish(&self, wakes: TransactionWakes) {
        wakes.wakes.into_iter().for_each(|wake| self.bus.publish(wake));
    }

    /// Wakes all waiters of this process, because another process has written.
    pub(crate) fn wake_everything(&self) {
        self.bus.dispatch_local(Wake::Everything);
    }

    /// Registers a listener for writes of other processes. Returns whether it is the first: then
    /// the writer has to start polling.
    pub(crate) fn listen(&self) -> (ListenGuard, bool) {
        let is_first = self.listeners.fetch_add(1, Ordering::SeqCst) == 0;
        (ListenGuard(self.listeners.clone()), is_first)
    }
}

/// Keeps the writer polling for writes of other processes until it is dropped.
#[derive(Debug)]
pub(crate) struct ListenGuard(Arc<AtomicUsize>);

impl ListenGuard {
    /// Attaches the guard to a stream, so that polling continues as long as the stream exists.
    pub(crate) fn attach_to(self, wakes: WakeStream) -> WakeStream {
        Box::pin(wakes.map(move |wake| {
            let _held = &self;
            wake
        }))
    }
}

impl Drop for ListenGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
