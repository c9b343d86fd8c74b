//! The transport: carries wake-ups between the processes that share a store.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::Bus;
use crate::store::{Finding, Severity};

/// Carries wake-ups between processes. They are hints: a lost one costs some time, because every
/// waiter also polls. No method fails: a transport whose server is unreachable logs it once and
/// resumes when the server is back.
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends the [outgoing](Bus::outgoing) wake-ups of a bus, and dispatches those of other
    /// processes to it while there is [interest](Bus::interest). After every gap in which messages
    /// may have been lost, it dispatches [`Wake::Everything`](super::Wake::Everything).
    ///
    /// The store runs this once, in a task that ends with the store.
    async fn run(&self, bus: Arc<Bus>);

    /// The operator's findings about the transport.
    async fn checkup(&self) -> Vec<Finding> {
        Vec::new()
    }
}

/// Sends nothing to other processes. Work from other processes is found by polling only.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTransport;

#[async_trait]
impl Transport for NoTransport {
    async fn run(&self, bus: Arc<Bus>) {
        let Some(outgoing) = bus.outgoing() else { return };
        loop {
            // Always busy, so that no caller waits.
            let batch = outgoing.next_batch(std::future::pending()).await;
            outgoing.sent(&batch);
        }
    }

    async fn checkup(&self) -> Vec<Finding> {
        let found = "inside one process only: work from another waits for the next regular look";
        vec![Finding::new(Severity::Good, "wake-ups", found)]
    }
}
