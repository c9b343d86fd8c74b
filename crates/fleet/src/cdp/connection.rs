//! A connection to a browser: a cheap handle over a driver that owns the WebSocket.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::stream::SplitSink;
use futures_util::{SinkExt, Stream, StreamExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::command::{CdpCommand, HandleJavaScriptDialog};
use super::error::BrowserError;
use super::event::{CdpEvent, DetachedFromTarget, DialogOpening};

/// The longest that a browser may take over one command. Jobs have shorter timeouts of their own.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);

/// The most commands that wait to be written. Callers wait for room; a browser reads at once.
const MAX_QUEUED_COMMANDS: usize = 16;

/// The most answers to dialogs that wait to be written. A page has one open dialog at most.
const MAX_QUEUED_REPLIES: usize = 64;

/// Accepts the events of one session in the driver's task. It must not block or call the connection.
pub(crate) trait EventSink: Send + Sync {
    /// Records an event. Returns whether a handler will receive the event itself.
    fn accept(&self, event: &CdpEvent<'_>) -> bool;

    /// The page or the connection is closed: no more events follow.
    fn close(&self);
}

/// A handle to a connection. The connection ends when all handles are dropped.
#[derive(Clone)]
pub(crate) struct CdpConnection {
    shared: Arc<CdpShared>,
    commands: mpsc::Sender<String>,
}

/// The part of a connection that reads and writes.
pub(crate) struct CdpDriver<S> {
    socket: WebSocketStream<S>,
    commands: mpsc::Receiver<String>,
    shared: CloseOnDrop,
}

/// The state that handles and driver share.
#[derive(Default)]
struct CdpShared {
    last_id: AtomicU64,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
struct ConnectionState {
    is_closed: bool,
    pending: HashMap<u64, PendingCall>,
    /// The sinks of each session. Weak, so that a sink is removed by dropping it.
    sinks: HashMap<Arc<str>, Vec<Weak<dyn EventSink>>>,
}

struct PendingCall {
    session: Option<Arc<str>>,
    answer: oneshot::Sender<Utf8Bytes>,
}

/// Closes the connection when the driver ends, also by being dropped.
struct CloseOnDrop(Arc<CdpShared>);

/// Removes a call that ended without an answer.
struct PendingGuard<'a> {
    shared: &'a CdpShared,
    id: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingMessage<'a> {
    id: u64,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    params: &'a RawValue,
}

/// The fields that tell an answer from an event, and where it belongs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IncomingMessage<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CommandAnswer<T> {
    result: Option<T>,
    error: Option<CommandRefusal>,
}

#[derive(Deserialize)]
struct CommandRefusal {
    code: i64,
    message: String,
}

impl CdpConnection {
    /// A connection over a stream whose WebSocket handshake is done. Messages have no size limit
    /// here: the stream must have one.
    pub(crate) async fn new<S>(stream: S) -> (Self, CdpDriver<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await;
        let (commands, queue) = mpsc::channel(MAX_QUEUED_COMMANDS);
        let shared = Arc::<CdpShared>::default();
        let driver = CdpDriver { socket, commands: queue, shared: CloseOnDrop(shared.clone()) };
        (Self { shared, commands }, driver)
    }

    /// Calls a command of the browser, or of a session.
    pub(crate) async fn call<C: CdpCommand>(
        &self,
        session: Option<&Arc<str>>,
        command: &C,
        limit: Duration,
    ) -> Result<C::Output, BrowserError> {
        self.call_method(session, C::METHOD, command, limit).await
    }

    /// Calls a command by its name.
    pub(crate) async fn call_method<T: DeserializeOwned>(
        &self,
        session: Option<&Arc<str>>,
        method: &str,
        params: &impl Serialize,
        limit: Duration,
    ) -> Result<T, BrowserError> {
        let params = to_raw_value(params).map_err(BrowserError::json(method))?;
        let exchange = self.exchange(session, method, &params);
        let timed_out = |_| BrowserError::Timeout { method: method.to_owned(), after: limit };
        let answer = timeout(limit, exchange).await.map_err(timed_out)??;
        let answer: CommandAnswer<T> = serde_json::from_str(&answer).map_err(BrowserError::json(method))?;
        match answer {
            CommandAnswer { error: Some(CommandRefusal { code, message }), .. } => {
                Err(BrowserError::Command { method: method.to_owned(), code, message })
            }
            CommandAnswer { result: Some(result), .. } => Ok(result),
            CommandAnswer { .. } => {
                let error = serde::de::Error::missing_field("result");
                Err(BrowserError::json(method)(error))
            }
        }
    }

    /// Sends a command and waits for the answer. Dropped, it leaves nothing behind.
    async fn exchange(
        &self,
        session: Option<&Arc<str>>,
        method: &str,
        params: &RawValue,
    ) -> Result<Utf8Bytes, BrowserError> {
        let id = self.shared.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, answered) = oneshot::channel();
        self.shared.insert(id, PendingCall { session: session.cloned(), answer })?;
        let _guard = PendingGuard { shared: &self.shared, id };
        let message = encode(id, method, session.map(AsRef::as_ref), params)?;
        self.commands.send(message).await.map_err(|_| BrowserError::Closed)?;
        answered.await.map_err(|_| BrowserError::Closed)
    }

    /// Adds a sink for the events of a session.
    pub(crate) fn add_sink(&self, session: &Arc<str>, sink: &Arc<impl EventSink + 'static>) {
        let weak = Arc::downgrade(sink);
        let mut state = self.shared.state();
        if state.is_closed {
            drop(state);
            return sink.close();
        }
        let sinks = state.sinks.entry(session.clone()).or_default();
        sinks.retain(|sink| sink.strong_count() > 0);
        sinks.push(weak);
    }
}

#[cfg(test)]
impl CdpConnection {
    pub(super) fn pending_calls(&self) -> usize {
        self.shared.state().pending.len()
    }

    pub(super) fn sinks_of(&self, session: &Arc<str>) -> usize {
        self.shared.state().sinks.get(session).map_or(0, Vec::len)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> CdpDriver<S> {
    /// Reads and writes until `shutdown`, until the browser closes the connection, or until all
    /// handles are dropped.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let Self { socket, commands, shared } = self;
        let (outgoing, incoming) = socket.split();
        let (replies, queued_replies) = mpsc::channel(MAX_QUEUED_REPLIES);
        // Reading never waits for writing: a browser may read no further until it has written.
        tokio::select! {
            () = shutdown.cancelled() => {}
            ended = write_commands(commands, queued_replies, outgoing) => log_end(ended),
            ended = read_messages(incoming, &shared.0, &replies) => log_end(ended),
        }
    }
}

fn log_end(ended: Result<(), tungstenite::Error>) {
    if let Err(error) = ended {
        debug!("the connection to a browser ended: {error}");
    }
}

async fn write_commands<S: AsyncRead + AsyncWrite + Unpin>(
    mut commands: mpsc::Receiver<String>,
    mut replies: mpsc::Receiver<String>,
    mut outgoing: SplitSink<WebSocketStream<S>, Message>,
) -> Result<(), tungstenite::Error> {
    loop {
        let message = tokio::select! {
            command = commands.recv() => command,
            Some(reply) = replies.recv() => Some(reply),
        };
        // Without a handle, nobody can send a command or receive an answer.
        let Some(message) = message else { return Ok(()) };
        outgoing.send(Message::text(message)).await?;
    }
}

async fn read_messages(
    mut incoming: impl Stream<Item = Result<Message, tungstenite::Error>> + Unpin,
    shared: &CdpShared,
    replies: &mpsc::Sender<String>,
) -> Result<(), tungstenite::Error> {
    while let Some(message) = incoming.next().await {
        let Message::Text(text) = message? else { continue };
        if let Some(reply) = shared.receive(text)
            && replies.try_send(reply).is_err()
        {
            debug!("a dialog stays open: too many are open at once");
        }
    }
    Ok(())
}

fn encode(
    id: u64,
    method: &str,
    session_id: Option<&str>,
    params: &RawValue,
) -> Result<String, BrowserError> {
    serde_json::to_string(&OutgoingMessage { id, method, session_id, params })
        .map_err(BrowserError::json(method))
}

impl CdpShared {
    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, id: u64, call: PendingCall) -> Result<(), BrowserError> {
        let mut state = self.state();
        if state.is_closed {
            return Err(BrowserError::Closed);
        }
        state.pending.insert(id, call);
        Ok(())
    }

    /// Passes an answer to its caller, or an event to its sinks. Returns the reply to a dialog, if any.
    fn receive(&self, text: Utf8Bytes) -> Option<String> {
        let message: IncomingMessage<'_> = match serde_json::from_str(&text) {
            Ok(message) => message,
            Err(error) => {
                debug!("a browser sent a message that is not of the protocol: {error}");
                return None;
            }
        };
        if let Some(id) = message.id {
            let call = self.state().pending.remove(&id);
            if let Some(call) = call {
                let _ = call.answer.send(text);
            }
            return None;
        }
        let event = CdpEvent { method: message.method.as_deref()?, params: message.params? };
        match message.session_id {
            Some(session) => self.dispatch(&session, &event),
            None => {
                self.detach(&event);
                None
            }
        }
    }

    /// Passes an event to the sinks of its session. A dialog that no handler receives is closed: a
    /// page with an open dialog runs no scripts.
    fn dispatch(&self, session: &str, event: &CdpEvent<'_>) -> Option<String> {
        let sinks: Vec<_> = self.state().sinks.get(session)?.iter().filter_map(Weak::upgrade).collect();
        // `count` instead of `any`: every sink must see the event.
        let receivers = sinks.iter().filter(|sink| sink.accept(event)).count();
        if event.method != DialogOpening::METHOD || receivers > 0 {
            return None;
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        // To dismiss `beforeunload` would cancel the navigation that caused it.
        let accept = event.parse().is_some_and(|dialog: DialogOpening| dialog.kind == "beforeunload");
        let params = to_raw_value(&HandleJavaScriptDialog { accept }).ok()?;
        encode(id, HandleJavaScriptDialog::METHOD, Some(session), &params).ok()
    }

    /// Ends a session whose page is gone.
    fn detach(&self, event: &CdpEvent<'_>) {
        if event.method != DetachedFromTarget::METHOD {
            return;
        }
        let Some(detached) = event.parse::<DetachedFromTarget>() else { return };
        let session = detached.session_id.as_str();
        let mut state = self.state();
        state.pending.retain(|_, call| call.session.as_deref() != Some(session));
        let sinks = state.sinks.remove(session).unwrap_or_default();
        drop(state);
        sinks.iter().filter_map(Weak::upgrade).for_each(|sink| sink.close());
    }

    /// Fails all calls, present and future.
    fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.pending.clear();
        let sinks = std::mem::take(&mut state.sinks);
        drop(state);
        sinks.values().flatten().filter_map(Weak::upgrade).for_each(|sink| sink.close());
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        self.shared.state().pending.remove(&self.id);
    }
}
