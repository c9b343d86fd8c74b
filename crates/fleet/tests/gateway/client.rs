//! A client that speaks just enough HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The code of the error, if it is one.
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let line = |line: &str| Some(line.strip_prefix(&format!("{name}: "))?.to_owned());
        self.head.lines().find_map(line)
    }
}

/// A client whose handshake was agreed to.
#[derive(Debug)]
pub(crate) struct BrowserClient {
    stream: TcpStream,
    pub(crate) session: String,
}

impl BrowserClient {
    /// Asks for a WebSocket.
    pub(crate) async fn connect(gateway: SocketAddr, target: &str, headers: &[&str]) -> Result<Self, Answer> {
        let mut stream = TcpStream::connect(gateway).await.unwrap();
        let own = [
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Key: a2V5",
            "Sec-WebSocket-Version: 13",
        ];
        send(&mut stream, "GET", target, &[&own, headers].concat(), "").await;
        let answer = receive(&mut stream).await;
        if answer.status != 101 {
            return Err(answer);
        }
        assert_eq!(answer.header("sec-websocket-accept").as_deref(), Some("yes"), "{answer:?}");
        Ok(Self { session: answer.header("x-tidemill-session").unwrap(), stream })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn expect(&mut self, bytes: &[u8]) {
        let mut read = vec![0; bytes.len()];
        tokio::time::timeout(PATIENCE, self.stream.read_exact(&mut read)).await.unwrap().unwrap();
        assert!(read == bytes, "{:?}", String::from_utf8_lossy(&read));
    }

    /// Whether what is sent comes back.
    pub(crate) async fn talk(&mut self) {
        self.send(b"hello").await;
        self.expect(b"hello").await;
    }

    /// Waits until the other side closes.
    pub(crate) async fn closed(mut self) {
        let mut rest = Vec::new();
        // Closed is closed, however roughly.
        let _ = tokio::time::timeout(PATIENCE, self.stream.read_to_end(&mut rest)).await.unwrap();
    }

    pub(crate) fn split(self) -> (impl AsyncReadExt + Unpin, impl AsyncWriteExt + Unpin) {
        self.stream.into_split()
    }
}

/// Makes one request.
pub(crate) async fn request(gateway: SocketAddr, method: &str, target: &str, headers: &[&str]) -> Answer {
    request_with(gateway, method, target, headers, "").await
}

pub(crate) async fn request_with(
    gateway: SocketAddr,
    method: &str,
    target: &str,
    headers: &[&str],
    body: &str,
) -> Answer {
    let mut stream = TcpStream::connect(gateway).await.unwrap();
    send(&mut stream, method, target, &[headers, &["Connection: close"]].concat(), body).await;
    receive(&mut stream).await
}

async fn send(stream: &mut TcpStream, method: &str, target: &str, headers: &[&str], body: &str) {
    let host =
        if headers.iter().any(|header| header.starts_with("Host:")) { "" } else { "Host: localhost\r\n" };
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let request = format!("{method} {target} HTTP/1.1\r\n{host}{headers}{length}\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
}

async fn receive(stream: &mut TcpStream) -> Answer {
    let (head, mut body) = tokio::time::timeout(PATIENCE, read_head(stream)).await.unwrap().unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, head, body: String::new() };
    let length: usize = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
    while body.len() < length {
        assert_ne!(stream.read_buf(&mut body).await.unwrap(), 0);
    }
    answer.body = String::from_utf8(body).unwrap();
    answer
}

/// Reads up to the empty line, and what came with it.
pub(crate) async fn read_head(stream: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut head = Vec::new();
    // Byte by byte, so that nothing behind it is read.
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok((String::from_utf8(head).unwrap(), Vec::new()))
}
