//! Asking a browser for a WebSocket, in the client's words but with the browser's own address.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{StatusCode, header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::splice::Side;
use super::tune::tune;
use super::{Endpoint, MOST_HEADERS};

/// An answer to an upgrade is a few hundred bytes; one beyond this is not from a browser.
const LONGEST_ANSWER: usize = 16 << 10;

/// What is between the client and us only, or would make a browser refuse.
const KEPT_BACK: [HeaderName; 8] = [
    header::HOST,
    header::ORIGIN,
    header::AUTHORIZATION,
    header::COOKIE,
    header::CONNECTION,
    header::UPGRADE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
];

/// Headers of ours begin with this, and are nobody else's business.
const OURS: &str = "x-tidemill-";

/// A browser that agreed.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its side of the connection.
    pub(crate) side: Side,
    /// What it answered, for the client.
    pub(crate) headers: HeaderMap,
}

/// Why a browser could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// It does not listen, or went away half-way.
    #[error("it cannot be reached")]
    Io(#[from] io::Error),
    /// It took too long.
    #[error("it did not answer in time")]
    TimedOut,
    /// What it said is not HTTP.
    #[error("it does not speak HTTP")]
    NotHttp,
    /// It does not want this client.
    #[error("it answered {status}: {words}")]
    Refused {
        /// With this status.
        status: StatusCode,
        /// And these words, of which the first are kept.
        words: String,
    },
}

/// Connects to a browser and asks it for a WebSocket with what the client sent.
pub(crate) async fn dial(
    endpoint: &Endpoint,
    client: &HeaderMap,
    limit: Duration,
) -> Result<Answer, DialError> {
    let asked = async {
        let mut stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
        tune(&stream)?;
        stream.write_all(&request(endpoint, client)).await?;
        answer(stream).await
    };
    tokio::time::timeout(limit, asked).await.map_err(|_| DialError::TimedOut)?
}

fn request(endpoint: &Endpoint, client: &HeaderMap) -> Vec<u8> {
    let mut request = Vec::with_capacity(1024);
    let mut add = |parts: [&[u8]; 4]| parts.into_iter().for_each(|part| request.extend_from_slice(part));
    add([b"GET ", endpoint.target.as_bytes(), b" HTTP/1.1\r\n", b""]);
    add([
        b"Host: ",
        endpoint.authority.as_bytes(),
        b"\r\n",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    ]);
    for (name, value) in client {
        if !KEPT_BACK.contains(name) && !name.as_str().starts_with(OURS) {
            add([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
        }
    }
    add([b"\r\n", b"", b"", b""]);
    request
}

async fn answer(mut stream: TcpStream) -> Result<Answer, DialError> {
    let mut read = Vec::with_capacity(1024);
    loop {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if let Some((status, headers, length)) = parse(&read)? {
            let early = Bytes::from(read).slice(length..);
            if status != StatusCode::SWITCHING_PROTOCOLS {
                return Err(DialError::Refused { status, words: words(&mut stream, early).await });
            }
            return Ok(Answer { side: Side { stream, early }, headers });
        }
        if read.len() > LONGEST_ANSWER {
            return Err(DialError::NotHttp);
        }
    }
}

/// Status and headers, and how long they are, once they are whole.
fn parse(read: &[u8]) -> Result<Option<(StatusCode, HeaderMap, usize)>, DialError> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = answer.parse(read).map_err(|_| DialError::NotHttp)? else {
        return Ok(None);
    };
    let status = answer.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(DialError::NotHttp)?;
    let mut map = HeaderMap::with_capacity(answer.headers.len());
    for header in answer.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| DialError::NotHttp)?;
        map.append(name, HeaderValue::from_bytes(header.value).map_err(|_| DialError::NotHttp)?);
    }
    Ok(Some((status, map, length)))
}

/// What a browser says with its refusal, if it says it at once.
async fn words(stream: &mut TcpStream, early: Bytes) -> String {
    let mut words = early.to_vec();
    if words.is_empty() {
        let said = stream.read_buf(&mut words);
        let _ = tokio::time::timeout(Duration::from_millis(200), said).await;
    }
    words.truncate(1024);
    String::from_utf8_lossy(&words).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_hears_its_own_address_and_neither_origin_nor_token() {
        let mut client = HeaderMap::new();
        for (name, value) in [
            ("host", "gateway"),
            ("origin", "http://evil"),
            ("authorization", "Bearer hunter2"),
            ("x-tidemill-meta", "a=b"),
            ("sec-websocket-key", "a2V5"),
            ("user-agent", "Playwright/1.64.1 (x)"),
        ] {
            client.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let endpoint = Endpoint::parse("ws://127.0.0.1:9222/devtools/browser/a").unwrap();
        let request = String::from_utf8(request(&endpoint, &client)).unwrap();
        let expected = "GET /devtools/browser/a HTTP/1.1\r\nHost: 127.0.0.1:9222\r\nConnection: Upgrade\r\n\
                        Upgrade: websocket\r\nsec-websocket-key: a2V5\r\nuser-agent: Playwright/1.64.1 (x)\r\n\r\n";
        assert_eq!(request, expected);
    }

    #[test]
    fn an_answer_is_read_when_it_is_whole() {
        let answer = b"HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: x\r\n\r\nbytes";
        assert!(parse(&answer[..30]).unwrap().is_none());
        let (status, headers, length) = parse(answer).unwrap().unwrap();
        assert_eq!(
            (status.as_u16(), &headers["sec-websocket-accept"]),
            (101, &HeaderValue::from_static("x"))
        );
        assert_eq!(&answer[length..], b"bytes");
        assert!(parse(b"SSH-2.0\r\n").is_err());
    }
}
