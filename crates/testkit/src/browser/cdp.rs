//! The least that can be said to a browser: a command and its answer.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

/// Nothing here takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a browser, direct or not.
#[derive(Debug)]
pub struct Cdp {
    socket: WebSocketStream<TcpStream>,
    last: u64,
}

/// Why a browser could not be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum CdpError {
    /// It is no address of a WebSocket.
    #[error("{0} does not begin with ws://")]
    Address(String),
    /// Nobody is there.
    #[error("the browser is not there")]
    Away(#[from] std::io::Error),
    /// The connection was refused or has ended; with an answer, its status says why.
    #[error("the connection has failed")]
    Socket(#[from] tungstenite::Error),
    /// What it said is not JSON.
    #[error("the browser does not speak JSON")]
    Json(#[from] serde_json::Error),
    /// It said nothing in time.
    #[error("the browser is silent")]
    Silent,
    /// It did not do what it was asked.
    #[error("{method}: {error}")]
    Refused {
        /// What it was asked.
        method: String,
        /// What it said.
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
            tokio::time::timeout(PATIENCE, connecting).await.map_err(|_| CdpError::Silent)??;
        Ok(Self { socket, last: 0 })
    }

    /// Says something and waits for the answer.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, CdpError> {
        self.call_in(None, method, params).await
    }

    /// The same, to one page.
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
            error => Err(CdpError::Refused { method: method.to_owned(), error }),
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
        tokio::time::timeout(PATIENCE, waiting).await.map_err(|_| CdpError::Silent)?
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

    /// The addresses of the browser's pages, as the browser itself counts them.
    pub async fn pages(&mut self) -> Result<Vec<String>, CdpError> {
        let targets = self.call("Target.getTargets", json!({})).await?;
        let targets = targets["targetInfos"].as_array().cloned().unwrap_or_default();
        let pages = targets.iter().filter(|target| target["type"] == "page");
        Ok(pages.filter_map(|page| page["url"].as_str().map(str::to_owned)).collect())
    }
}
