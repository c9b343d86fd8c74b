//! The transport: carries wake-ups between the processes that share a store.
//!
//! Messages are hints. A lost message costs some time, because every waiter also polls.

mod hint;
mod none;

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use futures_util::Stream;

pub use hint::Hint;
pub use none::NoTransport;

use crate::store::Finding;
use crate::wake::Wake;

/// Carries wake-ups between processes. No method fails: a transport whose server is unreachable
/// logs it once and resumes when the server is back.
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Takes a wake-up and returns at once. Wake-ups within a millisecond are sent together, with
    /// job counts summed. May be called from any thread.
    fn publish(&self, wake: Wake) -> SendTiming;

    /// Waits until everything published has been sent, for a short time at most. A program that
    /// ends right after an enqueue calls this.
    async fn flush(&self);

    /// Subscribes to messages of other processes. After every gap in which messages may have been
    /// lost, the next one is [`Wake::Everything`]. Dropping the stream unsubscribes.
    fn subscribe(&self, subject: Subject) -> MessageStream;

    /// Takes one share of a hint. Returns whether one was left.
    async fn take_hint(&self, hint: &Hint) -> bool;

    /// The operator's findings about the transport.
    async fn checkup(&self) -> Vec<Finding> {
        Vec::new()
    }
}

/// When a wake-up is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendTiming {
    /// At once: waiting for it is short.
    Now,
    /// With the next batch, within milliseconds.
    Soon,
}

/// What a subscriber wants to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Announcements of jobs to claim.
    Work,
    /// Events of jobs: ends, lost leases, cancellations, earlier due times.
    Events,
}

/// A message from another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A wake-up.
    Wake(Wake),
    /// A program announces jobs of this type.
    ForeignJobs(ForeignJobs),
}

/// An announcement of jobs by a program that may know nothing of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignJobs {
    /// The type of the jobs; in Tidemill, the name of a queue.
    pub type_name: String,
    /// The counter of how many claims may poll for them, if there is one.
    pub hint: Option<Hint>,
}

impl From<Wake> for Message {
    fn from(wake: Wake) -> Self {
        Self::Wake(wake)
    }
}

/// A stream of messages. It never ends.
pub type MessageStream = Pin<Box<dyn Stream<Item = Message> + Send>>;
