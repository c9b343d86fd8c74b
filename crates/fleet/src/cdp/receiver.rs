//! A bounded queue of events for one receiver.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::connection::EventSink;
use super::error::BrowserError;
use super::event::CdpEvent;

/// The most events that wait for a receiver: enough for a burst, such as the requests of a page.
const MAX_QUEUED_EVENTS: usize = 256;

/// The most bytes that wait for a receiver. A single event may be larger, and then waits alone.
const MAX_QUEUED_BYTES: usize = 32 << 20;

/// Receives the events of a page with one method, see [`BrowserPage::events`](super::BrowserPage::events).
///
/// At most 256 events and 32 MiB wait to be received. When more arrive, the new ones are dropped and
/// counted by [`missed`](Self::missed).
pub struct EventReceiver<T> {
    queue: Arc<EventQueue>,
    params: PhantomData<fn() -> T>,
}

pub(super) struct EventQueue {
    method: String,
    state: Mutex<QueueState>,
    changed: Notify,
}

#[derive(Default)]
struct QueueState {
    events: VecDeque<Box<RawValue>>,
    bytes: usize,
    missed: u64,
    is_closed: bool,
}

impl<T: DeserializeOwned> EventReceiver<T> {
    /// Waits for the next event and returns its parameters; `None` if the page or the connection is
    /// closed and all events are received.
    ///
    /// # Errors
    ///
    /// [`BrowserError::Json`] if the parameters are not a `T`. Later events can be received.
    ///
    /// # Cancel safety
    ///
    /// No event is lost if the future is dropped.
    pub async fn recv(&mut self) -> Option<Result<T, BrowserError>> {
        loop {
            let changed = self.queue.changed.notified();
            {
                let mut state = self.queue.state();
                if let Some(params) = state.events.pop_front() {
                    state.bytes -= params.get().len();
                    drop(state);
                    return Some(
                        serde_json::from_str(params.get()).map_err(BrowserError::json(&self.queue.method)),
                    );
                }
                if state.is_closed {
                    return None;
                }
            }
            changed.await;
        }
    }
}

impl<T> EventReceiver<T> {
    pub(super) fn new(method: &str) -> (Self, Arc<EventQueue>) {
        let queue = Arc::new(EventQueue {
            method: method.to_owned(),
            state: Mutex::default(),
            changed: Notify::new(),
        });
        (Self { queue: queue.clone(), params: PhantomData }, queue)
    }

    /// How many events were dropped because too many were waiting.
    pub fn missed(&self) -> u64 {
        self.queue.state().missed
    }
}

impl<T> fmt::Debug for EventReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventReceiver({})", self.queue.method)
    }
}

impl EventQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for EventQueue {
    fn accept(&self, event: &CdpEvent<'_>) -> bool {
        if event.method != self.method {
            return false;
        }
        let mut state = self.state();
        let bytes = event.params.get().len();
        let fits = state.events.len() < MAX_QUEUED_EVENTS && state.bytes + bytes <= MAX_QUEUED_BYTES;
        if fits || state.events.is_empty() {
            state.bytes += bytes;
            state.events.push_back(event.params.to_owned());
        } else {
            state.missed += 1;
        }
        drop(state);
        self.changed.notify_one();
        true
    }

    fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(queue: &EventQueue, method: &str, params: &str) -> bool {
        let params = RawValue::from_string(params.to_owned()).unwrap();
        queue.accept(&CdpEvent { method, params: &params })
    }

    #[tokio::test]
    async fn events_are_received_in_order_until_the_page_is_closed() {
        let (mut receiver, queue) = EventReceiver::<u32>::new("A.b");
        assert!(send(&queue, "A.b", "1") && !send(&queue, "A.c", "2") && send(&queue, "A.b", "\"3\""));
        queue.close();
        assert_eq!(receiver.recv().await.unwrap().unwrap(), 1);
        assert!(matches!(receiver.recv().await, Some(Err(BrowserError::Json { .. }))));
        assert!(receiver.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_receiver_that_does_not_receive_holds_a_bounded_number_of_events_and_bytes() {
        let (mut receiver, queue) = EventReceiver::<String>::new("A.b");
        let huge = format!("\"{}\"", "x".repeat(MAX_QUEUED_BYTES));
        send(&queue, "A.b", &huge);
        send(&queue, "A.b", "\"\"");
        assert_eq!(receiver.missed(), 1);
        assert_eq!(receiver.recv().await.unwrap().unwrap().len(), MAX_QUEUED_BYTES);
        (0..MAX_QUEUED_EVENTS + 5).for_each(|_| assert!(send(&queue, "A.b", "\"\"")));
        assert_eq!((receiver.missed(), queue.state().events.len()), (6, MAX_QUEUED_EVENTS));
    }
}
