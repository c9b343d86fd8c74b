//! The log of finished attempts, one line each.

use std::convert::Infallible;
use std::io;

use serde::Serialize;
use tidemill::{Event, JobId, Kind, Queue};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::context::Context;
use crate::output::{Colour, time::brief_duration};

/// Prints the events of a worker.
#[derive(Debug)]
pub(crate) struct EventLog<'a> {
    events: Receiver<Event>,
    context: &'a Context,
}

/// One finished attempt, as JSON.
#[derive(Debug, Serialize)]
struct EventLine<'a> {
    event: String,
    job: &'a JobId,
    kind: &'a Kind,
    #[serde(flatten)]
    queue: QueueFields<'a>,
    took_ms: u128,
}

#[derive(Debug, Serialize)]
struct QueueFields<'a> {
    queue: &'a str,
    delivery: String,
}

impl<'a> QueueFields<'a> {
    fn new(queue: &'a Queue) -> Self {
        Self { queue: queue.name.as_str(), delivery: queue.guarantee.to_string() }
    }
}

impl<'a> EventLog<'a> {
    pub(crate) fn new(events: Receiver<Event>, context: &'a Context) -> Self {
        Self { events, context }
    }

    /// Prints events until it is dropped.
    pub(crate) async fn run(&mut self) -> io::Result<Infallible> {
        loop {
            match self.events.recv().await {
                Ok(event) => self.write(&event)?,
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!("{missed} events were dropped: the view is too slow")
                }
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Prints the remaining events after the worker has ended.
    pub(crate) fn write_remaining(&mut self) -> io::Result<()> {
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
        if self.context.printer.is_json() {
            let line = EventLine {
                event: outcome.to_string(),
                job,
                kind,
                queue: QueueFields::new(queue),
                took_ms: elapsed.as_millis(),
            };
            return self.context.printer.json(&line);
        }
        let screen = &self.context.screen;
        let word = screen.style().paint(colour(*outcome), &format!("{outcome:<11}"));
        screen.print_line(&format!("{word} {kind}  {job}  {queue}  {}", brief_duration(*elapsed)));
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
