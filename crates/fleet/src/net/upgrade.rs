//! Server side of a WebSocket handshake.

use std::io;

use bytes::Bytes;
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::MAX_HEADERS;

/// The largest request: as much as a gateway accepts from a client, plus the browser's path.
const MAX_REQUEST_BYTES: usize = 36 << 10;

/// A client's handshake request.
pub(crate) struct UpgradeRequest {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// Bytes that followed the request.
    pub(crate) read_ahead: Bytes,
}

impl UpgradeRequest {
    /// Reads a request; `None` if it is not a WebSocket handshake.
    pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        let mut read = Vec::with_capacity(1024);
        while read.len() <= MAX_REQUEST_BYTES {
            if stream.read_buf(&mut read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match parse_request(&read) {
                Ok(None) => {}
                Ok(Some((path, headers, length))) => {
                    return Ok(Some(Self { path, headers, read_ahead: Bytes::from(read).slice(length..) }));
                }
                Err(NotUpgrade) => return Ok(None),
            }
        }
        Ok(None)
    }
}

/// The request is not a WebSocket handshake.
struct NotUpgrade;

type ParsedRequest = (String, HeaderMap, usize);

fn parse_request(read: &[u8]) -> Result<Option<ParsedRequest>, NotUpgrade> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = request.parse(read).map_err(|_| NotUpgrade)? else {
        return Ok(None);
    };
    let (Some("GET"), Some(path)) = (request.method, request.path) else { return Err(NotUpgrade) };
    let mut map = HeaderMap::with_capacity(request.headers.len());
    for header in request.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| NotUpgrade)?;
        map.append(name, HeaderValue::from_bytes(header.value).map_err(|_| NotUpgrade)?);
    }
    let is_websocket =
        map.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if is_websocket { Ok(Some((path.to_owned(), map, length))) } else { Err(NotUpgrade) }
}

/// The response that accepts a handshake, with the browser's headers.
pub(crate) fn encode_response(headers: &HeaderMap) -> Vec<u8> {
    let mut response =
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n".to_vec();
    for (name, value) in headers.iter().filter(|(name, _)| **name != CONNECTION && **name != UPGRADE) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            response.extend_from_slice(part);
        }
    }
    response.extend_from_slice(b"\r\n");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_for_a_websocket_is_let_through() {
        let get =
            |head: &str| parse_request(format!("{head}\r\n\r\n").as_bytes()).map(|parsed| parsed.is_some());
        assert!(matches!(get("GET /a HTTP/1.1\r\nUpgrade: websocket"), Ok(true)));
        for head in ["GET /a HTTP/1.1", "POST /a HTTP/1.1\r\nUpgrade: websocket", "SSH-2.0"] {
            assert!(get(head).is_err(), "{head}");
        }
        assert!(matches!(parse_request(b"GET /a HT"), Ok(None)));
    }
}
