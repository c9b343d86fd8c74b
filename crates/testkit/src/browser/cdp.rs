//! A minimal client of the Chrome DevTools Protocol.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

/// Longer than any call takes.
const CDP_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to a browser, direct or through a gateway.
#[derive(Debug)]
pub struct Cdp {
    socket: WebSocketStream<TcpStream>,
    last: u64,
}

/// An error of a browser connection.
#[derive(Debug, thiserror::Error)]
pub enum CdpError {
    /// The URL is not that of a WebSocket.
    #[error("{0} does not begin with ws://")]
    Address(String),
    /// The TCP connection failed.
    #[error("the browser is not there")]
    Connect(#[from] std::io::Error),
    /// The WebSocket was rejected or has ended; the status of the answer gives the reason.
    #[error("the connection has failed")]
    Socket(#[from] tungstenite::Error),
    /// A message is not JSON.
    #[error("the browser does not speak JSON")]
    Json(#[from] serde_json::Error),
    /// No message arrived in time.
    #[error("the browser is silent")]
    Timeout,
    /// A command failed.
    #[error("{method}: {error}")]
    Failed {
        /// The command.
        method: String,
        /// The error that the browser returned.
        error: Value,
    },
}

impl Cdp {
    /// Connects to `ws://host:port/path`.
    pub async fn connect(url: &str) -> Result<Self, CdpError> {
        let authority = url.strip_prefix("ws://").and_then(|rest| rest.split(['/', '?']).next());
        let Some(authority) = authority else { return Err(CdpError::Address(url.to_owned())) };
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        let connecting = client_async(url, stream);
        let (socket, _) =
            tokio::time::timeout(CDP_TIMEOUT, connecting).await.map_err(|_| CdpError::Timeout)??;
        Ok(Self { socket, last: 0 })
    }

    /// Sends a command and waits for its result.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, CdpError> {
        self.call_in(None, method, params).await
    }

    /// The same for one page.
    pub async fn call_in(
        &mut self,
        page: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, CdpError> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(page) = page {
            message["sessionId"] = page.into();
        }
        self.socket.send(Message::text(message.to_string())).await?;
        let id = self.last;
        let mut answer = self.until(|message| message["id"] == id).await?;
        match answer["error"].take() {
            Value::Null => Ok(answer["result"].take()),
            error => Err(CdpError::Failed { method: method.to_owned(), error }),
        }
    }

    /// Waits for a message.
    pub async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value, CdpError> {
        let waiting = async {
            loop {
                let message = self.socket.next().await.ok_or(tungstenite::Error::ConnectionClosed)??;
                let Message::Text(text) = message else { continue };
                let value: Value = serde_json::from_str(&text)?;
                if wanted(&value) {
                    return Ok(value);
                }
            }
        };
        tokio::time::timeout(CDP_TIMEOUT, waiting).await.map_err(|_| CdpError::Timeout)?
    }

    /// Opens a page, waits until it has loaded, and closes it.
    pub async fn open_page(&mut self, url: &str) -> Result<(), CdpError> {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" })).await?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", attach).await?;
        let page = attached["sessionId"].as_str().map(str::to_owned);
        self.call_in(page.as_deref(), "Page.enable", json!({})).await?;
        self.call_in(page.as_deref(), "Page.navigate", json!({ "url": url })).await?;
        self.until(|message| message["method"] == "Page.loadEventFired").await?;
        self.call("Target.closeTarget", json!({ "targetId": target["targetId"] })).await?;
        Ok(())
    }

    /// The URLs of the browser's pages, as reported by the browser.
    pub async fn pages(&mut self) -> Result<Vec<String>, CdpError> {
        let targets = self.call("Target.getTargets", json!({})).await?;
        let targets = targets["targetInfos"].as_array().cloned().unwrap_or_default();
        let pages = targets.iter().filter(|target| target["type"] == "page");
        Ok(pages.filter_map(|page| page["url"].as_str().map(str::to_owned)).collect())
    }
}
