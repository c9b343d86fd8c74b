//! The connection for subscriptions. One that says nothing is asked now and then whether it is still there.

use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Client, ConnectionInfo, ErrorKind, Msg, RedisError};
use tokio::time::timeout;

use super::Office;

/// How long the server may take to answer anything.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a connection may be silent before it is asked.
const SILENCE: Duration = Duration::from_secs(15);

/// An open connection.
pub(super) struct Line {
    sink: PubSubSink,
    messages: PubSubStream,
}

impl Line {
    /// Opens a connection: of a Cluster, to any server, because each hears every message.
    pub(super) async fn open(office: &Office) -> Result<Self, RedisError> {
        match connect(office.options.info.clone()).await {
            Err(error) if office.options.cluster => match office.commands.any_server(&office.options).await {
                Some(info) => connect(info).await,
                None => Err(error),
            },
            opened => opened,
        }
    }

    pub(super) fn subscribe(&self, channel: String) -> impl Future<Output = Result<(), RedisError>> + use<> {
        let mut sink = self.sink.clone();
        async move { timeout(ANSWER, sink.subscribe(channel)).await.unwrap_or_else(|_| Err(silent())) }
    }

    pub(super) fn unsubscribe(
        &self,
        channel: String,
    ) -> impl Future<Output = Result<(), RedisError>> + use<> {
        let mut sink = self.sink.clone();
        async move { timeout(ANSWER, sink.unsubscribe(channel)).await.unwrap_or_else(|_| Err(silent())) }
    }

    /// The next message, or why there will be none. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Msg, RedisError> {
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

async fn connect(info: ConnectionInfo) -> Result<Line, RedisError> {
    let opening = async { Client::open(info)?.get_async_pubsub().await };
    let (sink, messages) = timeout(ANSWER, opening).await.unwrap_or_else(|_| Err(silent()))?.split();
    Ok(Line { sink, messages })
}

/// What to say of a server that does not answer.
pub(super) fn silent() -> RedisError {
    RedisError::from((ErrorKind::Io, "the server did not answer"))
}
