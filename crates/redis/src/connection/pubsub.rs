//! A connection for subscriptions, which is pinged when it is silent.

use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, RedisError};
use tokio::time::timeout;

use super::{Node, no_response};

/// How long the server may take to reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may be silent before it is pinged.
const PING_AFTER: Duration = Duration::from_secs(15);

/// An open pub/sub connection.
pub(crate) struct PubSubConnection {
    sink: PubSubSink,
    messages: PubSubStream,
}

impl PubSubConnection {
    /// Opens a connection to a server.
    pub(crate) async fn open(node: &Node) -> Result<Self, RedisError> {
        let (sink, messages) = node.connect_pubsub().await?.split();
        Ok(Self { sink, messages })
    }

    pub(crate) fn subscribe(&self, channel: String) -> impl Future<Output = Result<(), RedisError>> + use<> {
        let mut sink = self.sink.clone();
        async move { timeout(REPLY_TIMEOUT, sink.subscribe(channel)).await.unwrap_or_else(|_| Err(no_response())) }
    }

    pub(crate) fn unsubscribe(
        &self,
        channel: String,
    ) -> impl Future<Output = Result<(), RedisError>> + use<> {
        let mut sink = self.sink.clone();
        async move {
            timeout(REPLY_TIMEOUT, sink.unsubscribe(channel)).await.unwrap_or_else(|_| Err(no_response()))
        }
    }

    /// The next message, or the error that ended the connection. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Msg, RedisError> {
        loop {
            match timeout(PING_AFTER, self.messages.next()).await {
                Ok(message) => return message.ok_or_else(no_response),
                Err(_) => self.ping().await?,
            }
        }
    }

    async fn ping(&mut self) -> Result<(), RedisError> {
        let reply = timeout(REPLY_TIMEOUT, self.sink.ping::<redis::Value>()).await;
        reply.unwrap_or_else(|_| Err(no_response())).map(drop)
    }
}
