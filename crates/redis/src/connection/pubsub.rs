//! A connection for subscriptions. One that says nothing is asked now and then whether it is still there.

use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, RedisError};
use tokio::time::timeout;

use super::{Node, silent};

/// How long the server may take to answer anything.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a connection may be silent before it is asked.
const SILENCE: Duration = Duration::from_secs(15);

/// An open connection.
pub(crate) struct Subscriptions {
    sink: PubSubSink,
    messages: PubSubStream,
}

impl Subscriptions {
    /// Opens a connection to a server.
    pub(crate) async fn open(node: &Node) -> Result<Self, RedisError> {
        let (sink, messages) = node.connect_pubsub().await?.split();
        Ok(Self { sink, messages })
    }

    pub(crate) fn subscribe(&self, channel: String) -> impl Future<Output = Result<(), RedisError>> + use<> {
        let mut sink = self.sink.clone();
        async move { timeout(ANSWER, sink.subscribe(channel)).await.unwrap_or_else(|_| Err(silent())) }
    }

    pub(crate) fn unsubscribe(
        &self,
        channel: String,
    ) -> impl Future<Output = Result<(), RedisError>> + use<> {
        let mut sink = self.sink.clone();
        async move { timeout(ANSWER, sink.unsubscribe(channel)).await.unwrap_or_else(|_| Err(silent())) }
    }

    /// The next message, or why there will be none. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Msg, RedisError> {
        loop {
            match timeout(SILENCE, self.messages.next()).await {
                Ok(message) => return message.ok_or_else(silent),
                Err(_) => self.ping().await?,
            }
        }
    }

    async fn ping(&mut self) -> Result<(), RedisError> {
        let answer = timeout(ANSWER, self.sink.ping::<redis::Value>()).await;
        answer.unwrap_or_else(|_| Err(silent())).map(drop)
    }
}
