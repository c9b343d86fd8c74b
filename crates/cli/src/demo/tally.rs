//! Counts how the jobs of each kind end.

use std::convert::Infallible;

use serde::Serialize;
use tidemill::{Event, EventKind, JobId};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// How the jobs of one kind ended.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Line {
    pub(super) kind: String,
    pub(super) done: u64,
    pub(super) retried: u64,
    pub(super) dead: u64,
    pub(super) cancelled: u64,
}

/// How all jobs ended so far.
#[derive(Debug)]
pub(super) struct Tally {
    events: Receiver<Event>,
    pub(super) lines: Vec<Line>,
    /// The job that died last.
    pub(super) died: Option<JobId>,
}

impl Tally {
    pub(super) fn of(events: Receiver<Event>) -> Self {
        Self { events, lines: Vec::new(), died: None }
    }

    /// Counts for as long as it is polled.
    pub(super) async fn run(&mut self) -> Infallible {
        loop {
            match self.events.recv().await {
                Ok(event) => self.count(&event),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Counts what is left when the worker has ended.
    pub(super) fn rest(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.count(&event);
        }
    }

    fn count(&mut self, event: &Event) {
        let line = self.line(event.kind.as_str());
        match event.outcome {
            EventKind::Done | EventKind::Continued => line.done += 1,
            EventKind::Retried => line.retried += 1,
            EventKind::Dead => line.dead += 1,
            EventKind::Cancelled | EventKind::Discarded => line.cancelled += 1,
            EventKind::Snoozed | EventKind::HandedBack => {}
        }
        if event.outcome == EventKind::Dead {
            self.died = Some(event.job.clone());
        }
    }

    fn line(&mut self, kind: &str) -> &mut Line {
        let index = self.lines.iter().position(|line| line.kind == kind).unwrap_or_else(|| {
            self.lines.push(Line { kind: kind.to_owned(), ..Line::default() });
            self.lines.len() - 1
        });
        &mut self.lines[index]
    }
}
