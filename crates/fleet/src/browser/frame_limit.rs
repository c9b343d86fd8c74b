//! The frame limit: relays a browser's messages to a job and drops those that are too large.
//!
//! A browser reports everything a page does, each in one message: a console line of a hundred
//! million characters, a thrown text, a request body. The CDP client reads each message into memory
//! without a limit. So messages are measured before, by their frame length.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};

/// Buffer size of reads and writes.
const BUFFER_BYTES: usize = 64 << 10;

/// How much of an oversized message is read to find its kind.
const KIND_PREFIX_BYTES: usize = 96;

/// How many dropped messages are remembered.
const MAX_LOGGED: usize = 4;

/// The error code of the response that replaces an oversized one. Browsers use other codes.
pub(super) const RESPONSE_TOO_LARGE_CODE: i64 = -31_413;

/// Dropped messages, such as `Runtime.consoleAPICalled (200000340 bytes)`; the first few.
#[derive(Debug, Default)]
pub(super) struct OversizedLog(Mutex<Vec<String>>);

impl OversizedLog {
    pub(super) fn list(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, event: &str, bytes: u64) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < MAX_LOGGED {
            list.push(format!("{event} ({bytes} bytes)"));
        }
    }
}

/// Lets through messages of up to `max_bytes`.
#[derive(Debug, Clone)]
pub(super) struct FrameLimit {
    pub(super) max_bytes: u64,
    pub(super) oversized: Arc<OversizedLog>,
}

/// The header of a WebSocket frame.
struct FrameHeader {
    bytes: Vec<u8>,
    length: u64,
}

impl FrameHeader {
    /// A control frame: it belongs to no message.
    fn is_control(&self) -> bool {
        self.bytes[0] & 0x08 != 0
    }

    fn is_last(&self) -> bool {
        self.bytes[0] & 0x80 != 0
    }

    /// The frame does not continue a message.
    fn is_first(&self) -> bool {
        self.bytes[0] & 0x0f != 0
    }

    /// Reads a header; `None` if the browser has closed the connection.
    async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; 2];
        if let Err(error) = from.read_exact(&mut bytes).await {
            return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
        }
        if bytes[1] & 0x80 != 0 {
            return Err(invalid("a browser does not mask what it says"));
        }
        let length = match bytes[1] {
            126 => u64::from(from.read_u16().await?),
            127 => from.read_u64().await?,
            short => u64::from(short),
        };
        match bytes[1] {
            126 => bytes.extend_from_slice(&length.to_be_bytes()[6..]),
            127 => bytes.extend_from_slice(&length.to_be_bytes()),
            _ => {}
        }
        Ok(Some(Self { bytes, length }))
    }
}

impl FrameLimit {
    /// Copies messages until the browser closes the connection or sends something invalid.
    pub(super) async fn copy_messages(
        &self,
        from: impl AsyncRead + Unpin,
        to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let (mut from, mut to) =
            (BufReader::with_capacity(BUFFER_BYTES, from), BufWriter::with_capacity(BUFFER_BYTES, to));
        // The length of the current message's earlier frames.
        let mut earlier_length = 0;
        while let Some(header) = FrameHeader::read(&mut from).await? {
            let total_length = if header.is_control() {
                header.length
            } else {
                header.length.saturating_add(earlier_length)
            };
            if total_length <= self.max_bytes {
                to.write_all(&header.bytes).await?;
                copy_exact(&mut from, &mut to, header.length).await?;
            } else if header.is_first() && header.is_last() && !header.is_control() {
                // Reading an oversized message takes a while, and the messages before it are
                // wanted.
                to.flush().await?;
                self.drop_message(&mut from, &mut to, header.length).await?;
            } else {
                return Err(invalid("a message in parts is too large"));
            }
            if !header.is_control() {
                earlier_length = if header.is_last() { 0 } else { total_length };
            }
            if from.buffer().is_empty() {
                to.flush().await?;
            }
        }
        to.shutdown().await
    }

    /// Reads and drops a message. A command whose response is dropped receives an error instead.
    async fn drop_message(
        &self,
        from: &mut (impl AsyncBufReadExt + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        length: u64,
    ) -> io::Result<()> {
        let mut prefix = Vec::with_capacity(KIND_PREFIX_BYTES);
        (&mut *from).take(length.min(KIND_PREFIX_BYTES as u64)).read_to_end(&mut prefix).await?;
        let kind = MessageKind::from_prefix(&prefix)
            .ok_or_else(|| invalid("a message that is too large is of no known kind"))?;
        copy_exact(from, &mut tokio::io::sink(), length - prefix.len() as u64).await?;
        match kind {
            MessageKind::Event(name) => {
                tracing::debug!("dropped {name} of {length} bytes");
                self.oversized.record(&name, length);
                Ok(())
            }
            MessageKind::Response(id) => {
                let message =
                    format!("the answer has {length} bytes, more than the {} it may have", self.max_bytes);
                let answer = format!(
                    r#"{{"id":{id},"error":{{"code":{RESPONSE_TOO_LARGE_CODE},"message":"{message}"}}}}"#
                );
                to.write_all(&encode_frame(answer.as_bytes())).await
            }
        }
    }
}

/// A text frame of up to 64 KiB.
fn encode_frame(text: &[u8]) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    let mut frame = vec![0x81, 126];
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(text);
    frame
}

/// The kind of a CDP message.
#[derive(Debug, PartialEq, Eq)]
enum MessageKind {
    Response(u64),
    Event(String),
}

impl MessageKind {
    /// From the start of a message: browsers write these fields first.
    fn from_prefix(prefix: &[u8]) -> Option<Self> {
        let prefix = String::from_utf8_lossy(prefix);
        if let Some(rest) = prefix.strip_prefix(r#"{"method":""#) {
            return Some(Self::Event(rest.split_once('"')?.0.to_owned()));
        }
        let rest = prefix.strip_prefix(r#"{"id":"#)?;
        rest.split_once(',')?.0.parse().ok().map(Self::Response)
    }
}

/// Copies `left` bytes.
async fn copy_exact(
    from: &mut (impl AsyncBufReadExt + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut left: u64,
) -> io::Result<()> {
    while left > 0 {
        let read = from.fill_buf().await?;
        if read.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let part = usize::try_from(left).map_or(read.len(), |left| left.min(read.len()));
        to.write_all(&read[..part]).await?;
        from.consume(part);
        left -= part as u64;
    }
    Ok(())
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with this first byte.
    fn part(first: u8, text: &str) -> Vec<u8> {
        let mut part = encode_frame(text.as_bytes());
        part[0] = first;
        part
    }

    async fn sieved(parts: &[Vec<u8>]) -> (io::Result<()>, Vec<u8>, Vec<String>) {
        let (limit, mut passed) = (FrameLimit { max_bytes: 100, oversized: Arc::default() }, Vec::new());
        let ended = limit.copy_messages(parts.concat().as_slice(), &mut passed).await;
        (ended, passed, limit.oversized.list())
    }

    #[tokio::test]
    async fn what_is_not_too_large_passes_as_it_is() {
        let short = [vec![0x81, 2], b"{}".to_vec()].concat();
        let parts = [short, part(0x01, &"a".repeat(60)), part(0x89, "ping"), part(0x80, &"b".repeat(40))];
        let (ended, passed, oversized) = sieved(&parts).await;
        ended.unwrap();
        assert_eq!((passed, oversized), (parts.concat(), Vec::new()));
    }

    #[tokio::test]
    async fn an_event_that_is_too_large_is_left_out_and_an_answer_says_so() {
        let long = "x".repeat(200);
        let event = part(0x81, &format!(r#"{{"method":"Runtime.consoleAPICalled","params":"{long}"}}"#));
        let answer = part(0x81, &format!(r#"{{"id":7,"result":"{long}"}}"#));
        let (ended, passed, oversized) = sieved(&[event, answer, part(0x81, "{}")]).await;
        ended.unwrap();
        assert_eq!(oversized, ["Runtime.consoleAPICalled (249 bytes)"]);
        let instead = r#"{"id":7,"error":{"code":-31413,"message":"the answer has 220 bytes, more than the 100 it may have"}}"#;
        assert_eq!(passed, [part(0x81, instead), part(0x81, "{}")].concat());
    }

    #[tokio::test]
    async fn what_is_too_large_and_cannot_be_told_ends_the_connection() {
        let parts = [part(0x01, &"a".repeat(60)), part(0x80, &"b".repeat(41))];
        for parts in [&parts[..], &[part(0x81, &"x".repeat(200))], &[vec![0x81, 0x80]]] {
            assert_eq!(sieved(parts).await.0.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        let mut endless = vec![0x81, 127];
        endless.extend_from_slice(&[0xff; 8]);
        assert!(sieved(&[endless]).await.0.is_err());
    }
}
