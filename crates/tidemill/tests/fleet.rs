//! A gateway and an agent with their defaults, on every store, and next to playwright-distributed.

#![cfg(all(feature = "fleet", feature = "sqlite", feature = "redis", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use tidemill::fleet::agent::{Agent, Engine};
use tidemill::fleet::gateway::Gateway;
use tidemill::fleet::{Capacity, WorkerEntry, WorkerStatus};
use tidemill::{Client, Namespace};
use tidemill_testkit::faults::Proxy;
use tidemill_testkit::servers::{Redis, shared_cluster, shared_postgres, shared_redis};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Browsers that an agent runs by default.
const BROWSERS: usize = 8;

/// Timeout of every wait.
const LONGEST: Duration = Duration::from_secs(60);

/// Reads up to the empty line; nothing if the other side closes before.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

/// A server that accepts every handshake: the address that the agent's browsers print.
async fn serve_handshakes() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let agreed = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
                if read_head(&mut stream).await.is_some() && stream.write_all(agreed.as_bytes()).await.is_ok()
                {
                    let _ = stream.read_u8().await;
                }
            });
        }
    });
    address
}

/// Connects to a gateway, and answers the status with the connection.
async fn connect(gateway: SocketAddr) -> (String, TcpStream) {
    connect_to(gateway, "/", "").await
}

async fn connect_to(gateway: SocketAddr, target: &str, headers: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(gateway).await.unwrap();
    let head =
        format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n");
    let key = "Sec-WebSocket-Key: a2V5\r\nSec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(format!("{head}{headers}{key}").as_bytes()).await.unwrap();
    let head = tokio::time::timeout(LONGEST, read_head(&mut stream)).await.unwrap().unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), stream)
}

/// An agent and a gateway with their defaults; the browsers are commands that print an address.
async fn start(client: &Client, directory: &std::path::Path) -> SocketAddr {
    let command = format!("echo ws://{}/; sleep 1000 & wait", serve_handshakes().await);
    let engine =
        Engine::Command { command, kind: "chromium".parse().unwrap(), offer: "cdp".parse().unwrap() };
    let agent = Agent::new(client).engine(engine).directory(directory);
    tokio::spawn(agent.run_until(std::future::pending::<()>()));
    serve(client).await
}

async fn serve(client: &Client) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Gateway::new(client).serve(listener, std::future::pending::<()>()));
    address
}

async fn the_ninth_client_waits(url: String) {
    let client = tidemill::connect(&url).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let gateway = start(&client, directory.path()).await;
    let mut held = Vec::new();
    for _ in 0..BROWSERS {
        let (status, stream) = connect(gateway).await;
        assert_eq!(status, "101", "{url}");
        held.push(stream);
    }
    let ninth = tokio::spawn(connect(gateway));
    // Longer than a client waits without any worker, and shorter than it waits for a busy one.
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

/// A gateway that loses the store's answer to a lease.
async fn a_lost_lease_is_repeated(url: &str, port: u16) {
    let proxy = Proxy::to(port).await.unwrap();
    let client = tidemill::connect(&proxy.url(url)).await.unwrap();
    let gateway = serve(&client).await;
    let member = WorkerEntry {
        id: "chromium:only".parse().unwrap(),
        offer: "cdp".parse().unwrap(),
        endpoint: format!("ws://{}/", serve_handshakes().await),
        status: WorkerStatus::Available,
        capacity: Capacity { concurrent: 1, lifetime: 1 },
        beat_timeout: Duration::from_secs(3600),
        detail: "{}".into(),
    };
    client.store().join(std::slice::from_ref(&member)).await.unwrap();
    proxy.drop_answer_to("lost-reply");
    let (status, _stream) = connect_to(gateway, "/?name=lost-reply", "").await;
    assert_eq!((status.as_str(), proxy.answers_dropped()), ("101", 1), "{url}");
    let info = client.store().get_worker(&member.id).await.unwrap().unwrap();
    assert_eq!((info.active, info.lifetime), (1, 1), "{url}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_answer_is_lost_is_repeated() {
    let redis = Redis::start().unwrap();
    a_lost_lease_is_repeated(&redis.url(), redis.port()).await;
    let postgres = shared_postgres();
    a_lost_lease_is_repeated(&postgres.database().unwrap(), postgres.port()).await;
}

/// A Redis with the exact keys of playwright-distributed, and a store on it.
async fn shared_registry() -> (Redis, Client) {
    let redis = Redis::start().unwrap();
    let connector = tidemill::ClientBuilder::new(&redis.url()).namespace(Namespace::new("").unwrap());
    (redis, connector.connect().await.unwrap())
}

fn ask(redis: &Redis, command: &str) -> String {
    redis.command(&command.split_whitespace().collect::<Vec<_>>()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_playwright_distributed_serves_clients_of_the_gateway() {
    let (redis, client) = shared_registry().await;
    let gateway = serve(&client).await;
    let (endpoint, now) = (serve_handshakes().await, client.store().clock().now().0);
    // The counters come last: a gateway that reaps in between removes counters without a worker.
    let fields = format!("id abc browserType chromium endpoint ws://{endpoint}/abc status available");
    ask(&redis, &format!("HSET worker:chromium:abc {fields} startedAt {now} lastHeartbeat {now}"));
    ask(&redis, "EXPIRE worker:chromium:abc 60");
    ask(&redis, "HSETNX cluster:active_connections chromium:abc 0");
    ask(&redis, "HSETNX cluster:lifetime_connections chromium:abc 0");
    let headers = "x-playwright-browser: chromium\r\nUser-Agent: Playwright/1.64.0\r\n";
    let found = async {
        loop {
            match connect_to(gateway, "/", headers).await {
                (status, stream) if status == "101" => return stream,
                // The gateway finds it within seconds, not at once.
                (status, _) => assert_eq!(status, "503"),
            }
        }
    };
    let stream = tokio::time::timeout(LONGEST, found).await.unwrap();
    assert_eq!(ask(&redis, "HGET cluster:active_connections chromium:abc"), "1");
    drop(stream);
    until("the end of its session", || ask(&redis, "HGET cluster:active_connections chromium:abc") == "0")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_its_proxy_keeps_our_browser_until_it_disconnects() {
    let (redis, client) = shared_registry().await;
    let directory = tempfile::tempdir().unwrap();
    start(&client, directory.path()).await;
    until("a browser", || ask(&redis, "HLEN cluster:active_connections") == "1").await;
    let first = "return redis.call('HKEYS', 'cluster:active_connections')[1]";
    let id = redis.command(&["EVAL", first, "0"]).unwrap();
    let get = |field: &str| ask(&redis, &format!("HGET worker:{id} {field}"));
    // Like its proxy after the selection.
    ask(&redis, &format!("HINCRBY cluster:active_connections {id} 1"));
    ask(&redis, &format!("HINCRBY cluster:lifetime_connections {id} 1"));
    assert_eq!(format!("chromium:{}", get("id")), id);
    let endpoint = get("endpoint").trim_start_matches("ws://").trim_end_matches('/').parse().unwrap();
    assert_eq!(connect(endpoint).await.0, "101");
    until("the agent to know of it", || get("status") == "draining").await;
    until("a successor", || ask(&redis, "HLEN cluster:active_connections") == "2").await;
    let beat = get("beat");
    until("another beat", || get("beat") > beat).await;
    assert_eq!(get("status"), "draining", "it lives");
    ask(&redis, &format!("HINCRBY cluster:active_connections {id} -1"));
    until("its end", || ask(&redis, &format!("EXISTS worker:{id}")) == "0").await;
}

async fn until(what: &str, is: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is() {
        assert!(begun.elapsed() < LONGEST, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
