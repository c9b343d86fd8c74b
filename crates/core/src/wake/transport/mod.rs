//! How wake-ups travel between the processes that share a store. Hints, never the truth: whatever a transport
//! loses costs a little time, because everybody also looks by themselves.

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

/// Carries wake-ups between processes. Nothing here fails: a transport whose server is away says so in the log,
/// once, and goes on when it is back.
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Takes a wake-up along and returns at once. What is told within a millisecond travels together, counts
    /// summed. May be called from any thread.
    fn publish(&self, wake: Wake) -> SendTiming;

    /// Waits until what was told has left, but not for long: a program that ends right after it has made a job
    /// must not take the news with it.
    async fn flush(&self);

    /// Listens from now on to what other processes tell. After every gap in which something may have been
    /// missed, the next thing heard is [`Wake::Everything`]. Listening ends when the stream is dropped.
    fn subscribe(&self, topic: Subject) -> MessageStream;

    /// Takes one share of a hint: whether there was one left.
    async fn take_hint(&self, hint: &Hint) -> bool;

    /// What an operator should know about it.
    async fn checkup(&self) -> Vec<Finding> {
        Vec::new()
    }
}

/// When a transport goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendTiming {
    /// At once: waiting for it is short.
    Now,
    /// With the next trip, within milliseconds.
    Soon,
}

/// What a listener wants to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// That there are jobs to claim.
    Work,
    /// What becomes of jobs: ends, losses, cancellations, earlier times.
    Events,
}

/// What a transport brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A wake-up.
    Wake(Wake),
    /// Somebody has jobs of this type.
    ForeignJobs(ForeignJobs),
}

/// Word of jobs from a program that may know nothing of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignJobs {
    /// What they are called; here, the name of a queue.
    pub type_name: String,
    /// How many look for them is counted here, if anywhere.
    pub hint: Option<Hint>,
}

impl From<Wake> for Message {
    fn from(wake: Wake) -> Self {
        Self::Wake(wake)
    }
}

/// A stream of messages. It never ends.
pub type MessageStream = Pin<Box<dyn Stream<Item = Message> + Send>>;
