//! Being asked for a WebSocket, and saying yes as the browser did.

use std::io;

use bytes::Bytes;
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::MOST_HEADERS;

/// How long a request may be: as much as a gateway takes from a client, and the browser's own address.
const LONGEST: usize = 36 << 10;

/// What a client sent.
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// What came after it.
    pub(crate) early: Bytes,
}

impl Request {
    /// Reads a request; nothing if it is not one that can be let through.
    pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        let mut read = Vec::with_capacity(1024);
        while read.len() <= LONGEST {
            if stream.read_buf(&mut read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match parse(&read) {
                Ok(None) => {}
                Ok(Some((path, headers, length))) => {
                    return Ok(Some(Self { path, headers, early: Bytes::from(read).slice(length..) }));
                }
                Err(NotOne) => return Ok(None),
            }
        }
        Ok(None)
    }
}

/// No request for a WebSocket.
struct NotOne;

type Parsed = (String, HeaderMap, usize);

fn parse(read: &[u8]) -> Result<Option<Parsed>, NotOne> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = request.parse(read).map_err(|_| NotOne)? else {
        return Ok(None);
    };
    let (Some("GET"), Some(path)) = (request.method, request.path) else { return Err(NotOne) };
    let mut map = HeaderMap::with_capacity(request.headers.len());
    for header in request.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| NotOne)?;
        map.append(name, HeaderValue::from_bytes(header.value).map_err(|_| NotOne)?);
    }
    let wanted = map.get(UPGRADE).is_some_and(|what| what.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if wanted { Ok(Some((path.to_owned(), map, length))) } else { Err(NotOne) }
}

/// What the browser agreed to, in its own words.
pub(crate) fn agreement(headers: &HeaderMap) -> Vec<u8> {
    let mut answer =
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n".to_vec();
    for (name, value) in headers.iter().filter(|(name, _)| **name != CONNECTION && **name != UPGRADE) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            answer.extend_from_slice(part);
        }
    }
    answer.extend_from_slice(b"\r\n");
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_for_a_websocket_is_let_through() {
        let get = |head: &str| parse(format!("{head}\r\n\r\n").as_bytes()).map(|parsed| parsed.is_some());
        assert!(matches!(get("GET /a HTTP/1.1\r\nUpgrade: websocket"), Ok(true)));
        for head in ["GET /a HTTP/1.1", "POST /a HTTP/1.1\r\nUpgrade: websocket", "SSH-2.0"] {
            assert!(get(head).is_err(), "{head}");
        }
        assert!(matches!(parse(b"GET /a HT"), Ok(None)));
    }
}
