//! The tasks of an agent: one that starts a browser, and one that watches it until it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::place::Place;
use super::recipe::{Recipe, Started};

/// What became of a browser.
#[derive(Debug)]
pub(super) enum Event {
    /// It is ready for clients.
    Started { number: u64, line: usize, started: Box<Started> },
    /// It did not come up.
    NotStarted { line: usize, why: String },
    /// It is gone, with its processes and its directory.
    Ended { number: u64, end: End },
}

/// How a browser ended.
#[derive(Debug)]
pub(super) enum End {
    /// It was told to.
    Told,
    /// Nobody wanted that.
    Unwanted(String),
}

/// One that is to be started.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) line: usize,
    pub(super) recipe: Arc<Recipe>,
    pub(super) within: Duration,
    /// Gives it up.
    pub(super) stop: CancellationToken,
}

/// Starts one.
pub(super) async fn start(place: Arc<Place>, order: Order) -> Event {
    let Order { number, line, recipe, within, stop } = order;
    let starting = timeout(within, recipe.start(&place, number));
    let why = match stop.run_until_cancelled(starting).await {
        Some(Ok(Ok(started))) => return Event::Started { number, line, started: Box::new(started) },
        Some(Ok(Err(error))) => error.to_string(),
        Some(Err(_)) => format!("it was not ready within {within:?}"),
        None => "it is not wanted any more".to_owned(),
    };
    place.vacate(number).await;
    Event::NotStarted { line, why }
}

/// Watches one until it dies, no longer answers, or is told to end. When this returns there is nothing left of it.
pub(super) async fn watch(number: u64, started: Started, close: CancellationToken) -> Event {
    let Started { mut process, mut probe, .. } = started;
    let end = tokio::select! {
        ended = process.ended() => {
            let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            End::Unwanted(format!("{how}; it said: {}", process.last_words))
        }
        why = probe.fails() => End::Unwanted(why),
        () = close.cancelled() => End::Told,
    };
    process.destroy().await;
    Event::Ended { number, end }
}
