//! Dialling a browser: forwards the client's WebSocket handshake with the browser's own Host.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{StatusCode, header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::socket::configure_socket;
use super::splice::PeerStream;
use super::{Endpoint, MAX_HEADERS};

/// A handshake response has a few hundred bytes; a larger one is not from a browser.
const MAX_RESPONSE_BYTES: usize = 16 << 10;

/// Hop-by-hop headers, credentials, and headers that would make a browser refuse.
const STRIPPED_HEADERS: [HeaderName; 8] = [
    header::HOST,
    header::ORIGIN,
    header::AUTHORIZATION,
    header::COOKIE,
    header::CONNECTION,
    header::UPGRADE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
];

/// The prefix of Tidemill's own headers, which browsers must not see.
const TIDEMILL_HEADER_PREFIX: &str = "x-tidemill-";

/// A browser's response to a handshake.
#[derive(Debug)]
pub(crate) struct UpgradeResponse {
    /// The connection to the browser.
    pub(crate) stream: PeerStream,
    /// The response headers, for the client.
    pub(crate) headers: HeaderMap,
}

/// Why a browser could not be connected to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// It does not listen, or closed the connection.
    #[error("it cannot be reached")]
    Io(#[from] io::Error),
    /// It took too long.
    #[error("it did not answer in time")]
    TimedOut,
    /// Its response is not HTTP.
    #[error("it does not speak HTTP")]
    NotHttp,
    /// It refused the client.
    #[error("it answered {status}: {body}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The start of the response body.
        body: String,
    },
}

/// Connects to a browser and forwards the client's handshake.
pub(crate) async fn dial(
    endpoint: &Endpoint,
    client: &HeaderMap,
    limit: Duration,
) -> Result<UpgradeResponse, DialError> {
    let exchange = async {
        let mut stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
        configure_socket(&stream)?;
        stream.write_all(&encode_request(endpoint, client)).await?;
        read_response(stream).await
    };
    tokio::time::timeout(limit, exchange).await.map_err(|_| DialError::TimedOut)?
}

fn encode_request(endpoint: &Endpoint, client: &HeaderMap) -> Vec<u8> {
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
        if !STRIPPED_HEADERS.contains(name) && !name.as_str().starts_with(TIDEMILL_HEADER_PREFIX) {
            add([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
        }
    }
    add([b"\r\n", b"", b"", b""]);
    request
}

async fn read_response(mut stream: TcpStream) -> Result<UpgradeResponse, DialError> {
    let mut read = Vec::with_capacity(1024);
    loop {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if let Some((status, headers, length)) = parse_response(&read)? {
            let read_ahead = Bytes::from(read).slice(length..);
            if status != StatusCode::SWITCHING_PROTOCOLS {
                return Err(DialError::Refused {
                    status,
                    body: read_error_body(&mut stream, read_ahead).await,
                });
            }
            return Ok(UpgradeResponse { stream: PeerStream { stream, read_ahead }, headers });
        }
        if read.len() > MAX_RESPONSE_BYTES {
            return Err(DialError::NotHttp);
        }
    }
}

/// Status, headers and their length, once they are complete.
fn parse_response(read: &[u8]) -> Result<Option<(StatusCode, HeaderMap, usize)>, DialError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(read).map_err(|_| DialError::NotHttp)? else {
        return Ok(None);
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(DialError::NotHttp)?;
    let mut map = HeaderMap::with_capacity(response.headers.len());
    for header in response.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| DialError::NotHttp)?;
        map.append(name, HeaderValue::from_bytes(header.value).map_err(|_| DialError::NotHttp)?);
    }
    Ok(Some((status, map, length)))
}

/// The body of an error response, as far as it arrives at once.
async fn read_error_body(stream: &mut TcpStream, read_ahead: Bytes) -> String {
    let mut body = read_ahead.to_vec();
    if body.is_empty() {
        let more = stream.read_buf(&mut body);
        let _ = tokio::time::timeout(Duration::from_millis(200), more).await;
    }
    body.truncate(1024);
    String::from_utf8_lossy(&body).trim().to_owned()
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
        let request = String::from_utf8(encode_request(&endpoint, &client)).unwrap();
        let expected = "GET /devtools/browser/a HTTP/1.1\r\nHost: 127.0.0.1:9222\r\nConnection: Upgrade\r\n\
                        Upgrade: websocket\r\nsec-websocket-key: a2V5\r\nuser-agent: Playwright/1.64.1 (x)\r\n\r\n";
        assert_eq!(request, expected);
    }

    #[test]
    fn an_answer_is_read_when_it_is_whole() {
        let answer = b"HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: x\r\n\r\nbytes";
        assert!(parse_response(&answer[..30]).unwrap().is_none());
        let (status, headers, length) = parse_response(answer).unwrap().unwrap();
        assert_eq!(
            (status.as_u16(), &headers["sec-websocket-accept"]),
            (101, &HeaderValue::from_static("x"))
        );
        assert_eq!(&answer[length..], b"bytes");
        assert!(parse_response(b"SSH-2.0\r\n").is_err());
    }
}
