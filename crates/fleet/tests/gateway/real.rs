//! A real browser behind the gateway.

use std::path::Path;
use std::process::Stdio;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidemill_core::fleet::Capacity;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::browser::{Browser, Manner};
use crate::client::PATIENCE;
use crate::world::World;

/// Where distributions put the headless shell itself; what is in the path may be a script around
/// it.
const BINARIES: [&str; 2] = ["/usr/lib/chromium/chromium-headless-shell", "/usr/lib/chromium/chromium"];

struct Chromium {
    endpoint: String,
    _child: Child,
    _profile: TempDir,
}

impl Chromium {
    async fn start() -> Self {
        let binary =
            BINARIES.iter().find(|path| Path::new(path).exists()).expect("Chromium is not installed");
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new(binary)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-quic",
            ])
            .args([
                "--disable-component-update",
                "--disable-sync",
                "--no-first-run",
                "--remote-debugging-port=0",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let endpoint = loop {
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
            if let Some((_, endpoint)) = line.split_once("listening on ") {
                break endpoint.to_owned();
            }
        };
        // What it says later is nobody's business, but it must be able to say it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { endpoint, _child: child, _profile: profile }
    }
}

struct Cdp(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Cdp {
    async fn connect(url: &str) -> Self {
        Self(connect_async(url).await.unwrap().0)
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        let call = json!({ "id": 1, "method": method, "params": params }).to_string();
        self.0.send(Message::text(call)).await.unwrap();
        loop {
            let message = tokio::time::timeout(PATIENCE, self.0.next()).await.unwrap().unwrap().unwrap();
            let answer: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
            if answer["id"] == 1 {
                return answer["result"].clone();
            }
        }
    }
}

async fn entered(world: &World, chromium: &Chromium) -> Browser {
    let room = Capacity { concurrent: 1, lifetime: 0 };
    let mut browser = Browser::new("chromium:real", "cdp", room, Manner::Echo).await;
    browser.member.endpoint.clone_from(&chromium.endpoint);
    browser.join(&world.client).await
}

#[tokio::test]
async fn chromium_is_spoken_to_through_the_gateway() {
    let (world, chromium) = (World::new().await, Chromium::start().await);
    let _browser = entered(&world, &chromium).await;
    let version = world.get("/json/version").await.json();
    let url = version["webSocketDebuggerUrl"].as_str().unwrap();
    let url = url.replace("localhost", &world.address.to_string());
    let mut cdp = Cdp::connect(&url).await;
    let version = cdp.call("Browser.getVersion", json!({})).await;
    assert!(version["product"].as_str().unwrap().contains("Chrome"), "{version}");
    // A message that is longer than any buffer on its way.
    let long = "x".repeat(1 << 20);
    let target = cdp.call("Target.createTarget", json!({ "url": format!("data:text/plain,{long}") })).await;
    assert!(target["targetId"].is_string(), "{target}");
}

#[tokio::test]
async fn the_pages_of_a_kept_session_are_in_place_when_its_client_comes_back() {
    let (world, chromium) = (World::new().await, Chromium::start().await);
    let _browser = entered(&world, &chromium).await;
    let made = world.post("/v1/sessions", r#"{"keep":"60s"}"#).await.json();
    let url = made["webSocketUrl"].as_str().unwrap().replace("localhost", &world.address.to_string());
    let mut cdp = Cdp::connect(&url).await;
    let page = "data:text/html,<title>mine</title>";
    let target = cdp.call("Target.createTarget", json!({ "url": page })).await["targetId"].clone();
    drop(cdp);
    world.connected(0).await;
    let mut cdp = Cdp::connect(&url).await;
    let targets = cdp.call("Target.getTargets", json!({})).await;
    let targets = targets["targetInfos"].as_array().unwrap();
    assert!(targets.iter().any(|known| known["targetId"] == target), "{targets:?}");
}
