//! The courier that stays at home.

use async_trait::async_trait;
use futures_util::stream;

use super::{Courier, Hint, Leaves, Tidings, Topic};
use crate::store::{Finding, Severity, Wake};

/// Tells no other process anything. Work from elsewhere is found by looking alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct InProcess;

#[async_trait]
impl Courier for InProcess {
    fn tell(&self, _: Wake) -> Leaves {
        Leaves::Soon
    }

    async fn flush(&self) {}

    fn listen(&self, _: Topic) -> Tidings {
        Box::pin(stream::pending())
    }

    async fn take(&self, _: &Hint) -> bool {
        false
    }

    async fn checkup(&self) -> Vec<Finding> {
        let found = "inside one process only: work from another waits for the next regular look";
        vec![Finding::new(Severity::Good, "wake-ups", found)]
    }
}
