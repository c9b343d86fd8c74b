//! A gateway and an agent with their defaults, on every store.

#![cfg(all(feature = "fleet", feature = "sqlite", feature = "redis", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use tidemill::Mill;
use tidemill::fleet::agent::{Agent, Engine};
use tidemill::fleet::gateway::Gateway;
use tidemill_testkit::servers::{shared_cluster, shared_postgres, shared_redis};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How many browsers an agent runs unless it is told otherwise.
const BROWSERS: usize = 8;

/// How long anything may take before a test gives up on it.
const LONGEST: Duration = Duration::from_secs(60);

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// A server that agrees to every handshake: what the browsers of the agent print as their address.
async fn serve_handshakes() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                read_head(&mut stream).await;
                let agreed = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
                stream.write_all(agreed.as_bytes()).await.unwrap();
                let _ = stream.read_u8().await;
            });
        }
    });
    address
}

/// Connects to a gateway, and answers the status with the connection.
async fn connect(gateway: SocketAddr) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(gateway).await.unwrap();
    let head = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    let key = "Sec-WebSocket-Key: a2V5\r\nSec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(format!("{head}{key}").as_bytes()).await.unwrap();
    let head = tokio::time::timeout(LONGEST, read_head(&mut stream)).await.unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), stream)
}

/// An agent and a gateway with their defaults; the browsers are commands that print an address.
async fn start(mill: &Mill, directory: &std::path::Path) -> SocketAddr {
    let command = format!("echo ws://{}/; sleep 1000 & wait", serve_handshakes().await);
    let engine =
        Engine::Command { command, kind: "chromium".parse().unwrap(), offer: "cdp".parse().unwrap() };
    let agent = Agent::new(mill).engine(engine).directory(directory);
    tokio::spawn(agent.run_until(std::future::pending::<()>()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Gateway::new(mill).serve(listener, std::future::pending::<()>()));
    address
}

async fn the_ninth_client_waits(url: String) {
    let mill = tidemill::connect(&url).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let gateway = start(&mill, directory.path()).await;
    let mut held = Vec::new();
    for _ in 0..BROWSERS {
        let (status, stream) = connect(gateway).await;
        assert_eq!(status, "101", "{url}");
        held.push(stream);
    }
    let ninth = tokio::spawn(connect(gateway));
    // Longer than a client waits where there is no worker, and shorter than it waits for one.
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(!ninth.is_finished(), "{url}: {:?}", ninth.await);
    held.pop();
    assert_eq!(ninth.await.unwrap().0, "101", "{url}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_waits_while_all_browsers_are_in_use() {
    let postgres = shared_postgres().database().unwrap();
    let redis = shared_redis().url();
    let directory = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}", directory.path().join("fleet.db").display());
    tokio::join!(
        the_ninth_client_waits("sqlite::memory:".to_owned()),
        the_ninth_client_waits(sqlite),
        the_ninth_client_waits(redis),
        the_ninth_client_waits(shared_cluster().url()),
        the_ninth_client_waits(postgres),
    );
}
