//! A server that answers a handshake and then echoes: all that a gateway sees of a browser.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::Client;
use tidemill_core::fleet::{Capacity, Offer, WorkerKey};
use tidemill_core::store::fleet::{BeatParams, WorkerEntry, WorkerStatus};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::client::read_head;

/// How it answers a handshake.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    /// It agrees, and echoes.
    Echo,
    /// It agrees, and talks in the same breath.
    Talk(&'static str),
    /// It answers this instead.
    Refuse(&'static str),
    /// It says nothing.
    Silent,
}

pub(crate) struct Browser {
    pub(crate) member: WorkerEntry,
    /// What clients asked, one head each.
    heads: Arc<Mutex<Vec<String>>>,
    connected: Arc<AtomicUsize>,
    _server: JoinSet<()>,
}

impl Browser {
    /// Listens, and is `id` (`chromium:a`) with this offer, but not a member yet.
    pub(crate) async fn new(id: &str, offer: &str, room: Capacity, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heads, connected) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let mut server = JoinSet::new();
        server.spawn(serve(listener, manner, heads.clone(), connected.clone()));
        let id: WorkerKey = id.parse().unwrap();
        let member = WorkerEntry {
            endpoint: format!("ws://{address}/own/{}", id.name),
            id,
            offer: Offer::new(offer).unwrap(),
            status: WorkerStatus::Available,
            capacity: room,
            beat_timeout: Duration::from_secs(3600),
            detail: Bytes::from_static(b"{}"),
        };
        Self { member, heads, connected, _server: server }
    }

    pub(crate) async fn join(self, client: &Client) -> Self {
        client.store().join(std::slice::from_ref(&self.member)).await.unwrap();
        self
    }

    /// A member that takes one session at a time.
    pub(crate) async fn one(client: &Client, id: &str) -> Self {
        let room = Capacity { concurrent: 1, lifetime: 0 };
        Self::new(id, "cdp", room, Manner::Echo).await.join(client).await
    }

    /// A member for one session in its life, as agents start them.
    pub(crate) async fn for_one_session(client: &Client, id: &str) -> Self {
        let room = Capacity { concurrent: 1, lifetime: 1 };
        Self::new(id, "cdp", room, Manner::Echo).await.join(client).await
    }

    /// It beats as an agent's browser does whose session has begun.
    pub(crate) async fn drain(&self, client: &Client) {
        let member = WorkerEntry { status: WorkerStatus::Draining, ..self.member.clone() };
        let beat = BeatParams { workers: &[member], grace: Duration::ZERO };
        client.store().beat(beat).await.unwrap();
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub(crate) fn connected(&self) -> usize {
        self.connected.load(Ordering::SeqCst)
    }
}

async fn serve(
    listener: TcpListener,
    manner: Manner,
    heads: Arc<Mutex<Vec<String>>>,
    connected: Arc<AtomicUsize>,
) {
    let mut clients = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (heads, connected) = (heads.clone(), connected.clone());
        clients.spawn(async move {
            connected.fetch_add(1, Ordering::SeqCst);
            let _ = answer(stream, manner, &heads).await;
            connected.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn answer(mut stream: TcpStream, manner: Manner, heads: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let (head, early) = read_head(&mut stream).await?;
    heads.lock().unwrap().push(head);
    let agreed =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: yes\r\n\r\n";
    match manner {
        Manner::Echo => stream.write_all(agreed.as_bytes()).await?,
        Manner::Talk(words) => stream.write_all(format!("{agreed}{words}").as_bytes()).await?,
        Manner::Refuse(answer) => return stream.write_all(answer.as_bytes()).await,
        Manner::Silent => return std::future::pending().await,
    }
    stream.write_all(&early).await?;
    let (mut from, mut to) = stream.split();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer).await? {
            0 => return Ok(()),
            // A way for a client to have the browser end it.
            3 if buffer.starts_with(b"bye") => return Ok(()),
            read => to.write_all(&buffer[..read]).await?,
        }
    }
}
