//! The transport of stores that announce nothing to other processes.

use async_trait::async_trait;
use futures_util::stream;

use super::{Hint, MessageStream, SendTiming, Subject, Transport};
use crate::store::{Finding, Severity};
use crate::wake::Wake;

/// Sends nothing to other processes. Work from other processes is found by polling only.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTransport;

#[async_trait]
impl Transport for NoTransport {
    fn publish(&self, _: Wake) -> SendTiming {
        SendTiming::Soon
    }

    async fn flush(&self) {}

    fn subscribe(&self, _: Subject) -> MessageStream {
        Box::pin(stream::pending())
    }

    async fn take_hint(&self, _: &Hint) -> bool {
        false
    }

    async fn checkup(&self) -> Vec<Finding> {
        let found = "inside one process only: work from another waits for the next regular look";
        vec![Finding::new(Severity::Good, "wake-ups", found)]
    }
}
