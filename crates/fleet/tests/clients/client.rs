//! A client: a Node process that does with its library what it is told.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// No order takes that long, on whatever machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Where the libraries are.
pub(crate) fn node() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/node")
}

/// A library that a client uses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Library {
    Playwright,
    PlaywrightBefore,
    Puppeteer,
}

impl Library {
    fn name(self) -> &'static str {
        match self {
            Self::Playwright => "playwright-core",
            Self::PlaywrightBefore => "playwright-core-previous",
            Self::Puppeteer => "puppeteer-core",
        }
    }

    /// Its directory. A test that needs it must not pass without.
    pub(crate) fn directory(self) -> PathBuf {
        let directory = node().join("node_modules").join(self.name());
        assert!(
            directory.is_dir(),
            "{} is not installed: `cargo xtask test` installs it, or `npm ci` in {}",
            self.name(),
            node().display()
        );
        directory
    }
}

/// How a client connects.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Way {
    /// `chromium.connect`.
    Playwright,
    /// `chromium.connectOverCDP`.
    PlaywrightOverCdp,
    /// `puppeteer.connect` with `browserWSEndpoint`.
    Puppeteer,
    /// `puppeteer.connect` with `browserURL`.
    PuppeteerByUrl,
    /// `puppeteer.connect` with `webDriverBiDi`.
    PuppeteerBidi,
}

/// A client under way. Its process ends with it, and with the test's process.
pub(crate) struct BrowserClient {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl BrowserClient {
    pub(crate) async fn start(library: Library) -> Self {
        library.directory();
        let mut command = Command::new("node");
        command.current_dir(node()).args(["client.mjs", library.name()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("node does not start: `cargo xtask test` installs it");
        let (orders, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut client = Self { child, orders, answers: BufReader::new(answers).lines() };
        assert_eq!(client.answer().await, Ok("ready".into()));
        client
    }

    /// Connects, and tells which browser it is.
    pub(crate) async fn connect(&mut self, way: Way, url: &str) -> Result<String, String> {
        let version = self.give(json!({ "order": "connect", "way": way, "url": url })).await?;
        Ok(version.as_str().unwrap().to_owned())
    }

    /// Opens a page: how long that took, in milliseconds.
    pub(crate) async fn open(&mut self, url: &str) -> u64 {
        self.ok(json!({ "order": "open", "url": url })).await.as_u64().unwrap()
    }

    /// Turns to a page that is open already.
    pub(crate) async fn find(&mut self, url: &str) {
        self.ok(json!({ "order": "find", "url": url })).await;
    }

    pub(crate) async fn click(&mut self, selector: &str) {
        self.ok(json!({ "order": "click", "selector": selector })).await;
    }

    pub(crate) async fn type_into(&mut self, selector: &str, text: &str) {
        self.ok(json!({ "order": "type", "selector": selector, "text": text })).await;
    }

    pub(crate) async fn text(&mut self, selector: &str) -> Value {
        self.ok(json!({ "order": "text", "selector": selector })).await
    }

    pub(crate) async fn value(&mut self, selector: &str) -> Value {
        self.ok(json!({ "order": "value", "selector": selector })).await
    }

    pub(crate) async fn evaluate(&mut self, script: &str) -> Value {
        self.ok(json!({ "order": "evaluate", "script": script })).await
    }

    pub(crate) async fn screenshot(&mut self) -> Vec<u8> {
        let encoded = self.ok(json!({ "order": "screenshot" })).await;
        base64::engine::general_purpose::STANDARD.decode(encoded.as_str().unwrap()).unwrap()
    }

    /// Leaves the browser as it is.
    pub(crate) async fn disconnect(&mut self) {
        self.ok(json!({ "order": "disconnect" })).await;
    }

    /// Completes when the other side has ended the connection.
    pub(crate) async fn gone(&mut self) {
        self.ok(json!({ "order": "gone" })).await;
    }

    /// Ends the process; its connection ends with it.
    pub(crate) async fn end(self) {
        let Self { mut child, orders, .. } = self;
        drop(orders);
        timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
    }

    async fn ok(&mut self, order: Value) -> Value {
        let words = order.to_string();
        self.give(order).await.unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    async fn give(&mut self, order: Value) -> Result<Value, String> {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.unwrap();
        self.answer().await
    }

    async fn answer(&mut self) -> Result<Value, String> {
        let line = timeout(PATIENCE, self.answers.next_line()).await.expect("a client that answers");
        let line = line.unwrap().expect("a client that lives");
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        match answer["error"].take() {
            Value::Null => Ok(answer["ok"].take()),
            error => Err(error.as_str().unwrap().to_owned()),
        }
    }
}
