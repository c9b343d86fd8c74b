//! Forged wake-ups about sessions.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidemill::Client;
use tidemill::fleet::gateway::Gateway;
use tidemill::fleet::{Capacity, ListSessionsParams, SessionId, WorkerEntry, WorkerStatus};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::place::Place;

const FOR_EVER: Duration = Duration::from_secs(60);

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// A browser that accepts every handshake and then echoes.
async fn serve_echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                read_head(&mut stream).await;
                let agreed = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
                stream.write_all(agreed.as_bytes()).await.unwrap();
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    address
}

async fn serve(client: &Client) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Gateway::new(client).serve(listener, std::future::pending::<()>()));
    address
}

async fn connect(gateway: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(gateway).await.unwrap();
    let head = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Key: a2V5\r\nSec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let head = tokio::time::timeout(FOR_EVER, read_head(&mut stream)).await.unwrap();
    assert!(head.contains("101"), "{head}");
    stream
}

/// Whether the connection still reaches the browser.
async fn talks(stream: &mut TcpStream) -> bool {
    let talk = async {
        stream.write_all(b"x").await?;
        stream.read_u8().await
    };
    tokio::time::timeout(FOR_EVER, talk).await.unwrap().is_ok()
}

async fn join(client: &Client) {
    let member = WorkerEntry {
        id: "chromium:only".parse().unwrap(),
        offer: "cdp".parse().unwrap(),
        endpoint: format!("ws://{}/", serve_echo().await),
        status: WorkerStatus::Available,
        capacity: Capacity { concurrent: 3, lifetime: 0 },
        beat_timeout: Duration::from_secs(3600),
        detail: "{}".into(),
    };
    client.store().join(&[member]).await.unwrap();
}

/// The session that is not among `known`, once a browser_client is connected to it.
async fn connected(client: &Client, known: &[SessionId]) -> SessionId {
    let look = async {
        loop {
            let list = ListSessionsParams { worker: None, cursor: None, limit: 10 };
            let page = client.store().list_sessions(list).await.unwrap();
            let new = page.items.into_iter().find(|info| info.connected && !known.contains(&info.session));
            if let Some(new) = new {
                return new.session;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(FOR_EVER, look).await.unwrap()
}

async fn no_session_ends_but_the_one_that_is_closed(place: Place) {
    let client = &place.client;
    join(client).await;
    let gateway = serve(client).await;
    let mut browser_client = connect(gateway).await;
    let session = connected(client, &[]).await;
    let mut other = connect(gateway).await;
    let closed = connected(client, std::slice::from_ref(&session)).await;
    for _ in 0..3 {
        place.publish(&format!("session {session}")).await;
        place.publish("member chromium:only").await;
        place.publish("places chromium").await;
    }
    // A later announcement arrives after them, long before the next renewal of the gateway.
    assert!(client.store().close(&closed).await.unwrap());
    let ended = async { while talks(&mut other).await {} };
    tokio::time::timeout(FOR_EVER, ended).await.unwrap();
    assert!(talks(&mut browser_client).await);
    assert!(client.store().get_session(&session).await.unwrap().is_some());
}

/// A flood of wake-ups about a session makes the gateway ask a few times a second, not once for
/// each.
async fn a_flood_is_answered_by_few_questions(place: Place) {
    let client = &place.client;
    join(client).await;
    let gateway = serve(client).await;
    let mut browser_client = connect(gateway).await;
    let session = connected(client, &[]).await;
    let (began, before) = (Instant::now(), client.store().commands());
    for _ in 0..400 {
        place.publish(&format!("session {session}")).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // At most five a second, each with a few commands, besides the regular calls of a gateway.
    let (asked, took) = (client.store().commands() - before, began.elapsed());
    let most = 60 + u64::try_from(took.as_millis()).unwrap() / 200 * 4;
    assert!(asked <= most, "{asked} commands in {took:?}, which is more than {most}");
    assert!(talks(&mut browser_client).await);
    assert!(client.store().close(&session).await.unwrap());
    let ended = async { while talks(&mut browser_client).await {} };
    tokio::time::timeout(FOR_EVER, ended).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_answered_by_few_questions_on_redis() {
    a_flood_is_answered_by_few_questions(Place::redis().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_answered_by_few_questions_on_postgres() {
    a_flood_is_answered_by_few_questions(Place::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_ends_on_sqlite() {
    no_session_ends_but_the_one_that_is_closed(Place::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_ends_on_redis() {
    no_session_ends_but_the_one_that_is_closed(Place::redis().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_ends_on_a_cluster() {
    no_session_ends_but_the_one_that_is_closed(Place::cluster().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_ends_on_postgres() {
    no_session_ends_but_the_one_that_is_closed(Place::postgres().await).await;
}
