//! Counts of finished jobs by kind.

use std::convert::Infallible;

use serde::Serialize;
use tidemill::{Event, EventKind, JobId};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// The counts of one kind.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct KindCounts {
    pub(super) kind: String,
    pub(super) done: u64,
    pub(super) retried: u64,
    pub(super) dead: u64,
    pub(super) cancelled: u64,
}

/// The counts of all kinds so far.
#[derive(Debug)]
pub(super) struct KindCounter {
    events: Receiver<Event>,
    pub(super) kinds: Vec<KindCounts>,
    /// The last dead job.
    pub(super) died: Option<JobId>,
}

impl KindCounter {
    pub(super) fn new(events: Receiver<Event>) -> Self {
        Self { events, kinds: Vec::new(), died: None }
    }

    /// Counts events until it is dropped.
    pub(super) async fn run(&mut self) -> Infallible {
        loop {
            match self.events.recv().await {
                Ok(event) => self.count(&event),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Counts the remaining events after the worker has ended.
    pub(super) fn count_remaining(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.count(&event);
        }
    }

    fn count(&mut self, event: &Event) {
        let counts = self.kind_counts(event.kind.as_str());
        match event.outcome {
            EventKind::Done | EventKind::Continued => counts.done += 1,
            EventKind::Retried => counts.retried += 1,
            EventKind::Dead => counts.dead += 1,
            EventKind::Cancelled | EventKind::Discarded => counts.cancelled += 1,
            EventKind::Snoozed | EventKind::HandedBack => {}
        }
        if event.outcome == EventKind::Dead {
            self.died = Some(event.job.clone());
        }
    }

    fn kind_counts(&mut self, kind: &str) -> &mut KindCounts {
        let index = self.kinds.iter().position(|counts| counts.kind == kind).unwrap_or_else(|| {
            self.kinds.push(KindCounts { kind: kind.to_owned(), ..KindCounts::default() });
            self.kinds.len() - 1
        });
        &mut self.kinds[index]
    }
}
