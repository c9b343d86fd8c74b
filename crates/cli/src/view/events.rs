//! Every attempt that ends, one line each.

use std::convert::Infallible;
use std::io;

use serde::Serialize;
use tidemill::{Event, JobId, Kind, Queue};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::context::Context;
use crate::output::{Colour, time::brief};

/// What a worker tells of its jobs.
#[derive(Debug)]
pub(crate) struct EventLog<'a> {
    events: Receiver<Event>,
    context: &'a Context,
}

/// One attempt, for programs.
#[derive(Debug, Serialize)]
struct Line<'a> {
    event: String,
    job: &'a JobId,
    kind: &'a Kind,
    #[serde(flatten)]
    queue: Queued<'a>,
    took_ms: u128,
}

#[derive(Debug, Serialize)]
struct Queued<'a> {
    queue: &'a str,
    delivery: String,
}

impl<'a> Queued<'a> {
    fn of(queue: &'a Queue) -> Self {
        Self { queue: queue.name.as_str(), delivery: queue.guarantee.to_string() }
    }
}

impl<'a> EventLog<'a> {
    pub(crate) fn new(events: Receiver<Event>, context: &'a Context) -> Self {
        Self { events, context }
    }

    /// Writes every event for as long as it is polled.
    pub(crate) async fn run(&mut self) -> io::Result<Infallible> {
        loop {
            match self.events.recv().await {
                Ok(event) => self.write(&event)?,
                Err(RecvError::Lagged(missed)) => tracing::warn!("{missed} events were too fast to be shown"),
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Writes what is left when the worker has ended.
    pub(crate) fn rest(&mut self) -> io::Result<()> {
        loop {
            match self.events.try_recv() {
                Ok(event) => self.write(&event)?,
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(()),
            }
        }
    }

    fn write(&self, event: &Event) -> io::Result<()> {
        let Event { job, kind, queue, outcome, elapsed } = event;
        if self.context.out.is_json() {
            let line = Line {
                event: outcome.to_string(),
                job,
                kind,
                queue: Queued::of(queue),
                took_ms: elapsed.as_millis(),
            };
            return self.context.out.json(&line);
        }
        let screen = &self.context.screen;
        let word = screen.style().paint(colour(*outcome), &format!("{outcome:<11}"));
        screen.say(&format!("{word} {kind}  {job}  {queue}  {}", brief(*elapsed)));
        Ok(())
    }
}

fn colour(ending: tidemill::EventKind) -> Colour {
    match ending {
        tidemill::EventKind::Done => Colour::Green,
        tidemill::EventKind::Dead => Colour::Red,
        tidemill::EventKind::Retried => Colour::Yellow,
        _ => Colour::Dim,
    }
}
