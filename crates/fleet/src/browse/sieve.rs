//! What a browser says to a job passes here, but for messages that are too large.
//!
//! A browser tells whoever drives it whatever a page does, in one message each, and whole: a line of a hundred million
//! letters for the console, a text that is thrown, the body of a request. What takes the messages here reads each into
//! memory before it looks at it, and has no limit. So they are measured before, by the length that stands before each.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};

/// How much is read and written at once.
const CHUNK: usize = 64 << 10;

/// How much of a message that is too large is looked at: enough for what kind of message it is.
const LOOK: usize = 96;

/// How many that were left out are remembered.
const KEPT: usize = 4;

/// The code of an answer of our own, in place of one that is too large. Those of browsers lie elsewhere.
pub(super) const TOO_LARGE: i64 = -31_413;

/// What was left out because it was too large, such as `Runtime.consoleAPICalled (200000340 bytes)`; the first few.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Mutex<Vec<String>>);

impl LeftOut {
    pub(super) fn list(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, event: &str, bytes: u64) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < KEPT {
            list.push(format!("{event} ({bytes} bytes)"));
        }
    }
}

/// Lets through messages of up to so many bytes.
#[derive(Debug, Clone)]
pub(super) struct Sieve {
    pub(super) most: u64,
    pub(super) left_out: Arc<LeftOut>,
}

/// What stands before each part of a message.
struct Head {
    bytes: Vec<u8>,
    length: u64,
}

impl Head {
    /// It belongs to no message: a ping, or the end.
    fn is_control(&self) -> bool {
        self.bytes[0] & 0x08 != 0
    }

    fn is_last(&self) -> bool {
        self.bytes[0] & 0x80 != 0
    }

    /// It does not continue a message.
    fn is_first(&self) -> bool {
        self.bytes[0] & 0x0f != 0
    }

    /// Reads one; nothing if the browser has ended the connection.
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

impl Sieve {
    /// Passes on what a browser says until it has ended, or says what nobody can make sense of.
    pub(super) async fn pass(
        &self,
        from: impl AsyncRead + Unpin,
        to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let (mut from, mut to) = (BufReader::with_capacity(CHUNK, from), BufWriter::with_capacity(CHUNK, to));
        // How much of the present message has come in parts before.
        let mut before = 0;
        while let Some(head) = Head::read(&mut from).await? {
            let whole = if head.is_control() { head.length } else { head.length.saturating_add(before) };
            if whole <= self.most {
                to.write_all(&head.bytes).await?;
                hand_on(&mut from, &mut to, head.length).await?;
            } else if head.is_first() && head.is_last() && !head.is_control() {
                // It takes a while to read it all away, and what came before it is wanted.
                to.flush().await?;
                self.leave_out(&mut from, &mut to, head.length).await?;
            } else {
                return Err(invalid("a message in parts is too large"));
            }
            if !head.is_control() {
                before = if head.is_last() { 0 } else { whole };
            }
            if from.buffer().is_empty() {
                to.flush().await?;
            }
        }
        to.shutdown().await
    }

    /// Reads a message away. What waits for an answer gets one that says why there is none.
    async fn leave_out(
        &self,
        from: &mut (impl AsyncBufReadExt + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        length: u64,
    ) -> io::Result<()> {
        let mut start = Vec::with_capacity(LOOK);
        (&mut *from).take(length.min(LOOK as u64)).read_to_end(&mut start).await?;
        let kind =
            Kind::of(&start).ok_or_else(|| invalid("a message that is too large is of no known kind"))?;
        hand_on(from, &mut tokio::io::sink(), length - start.len() as u64).await?;
        match kind {
            Kind::Event(name) => {
                tracing::debug!("left out {name} of {length} bytes");
                self.left_out.note(&name, length);
                Ok(())
            }
            Kind::Answer(id) => {
                let message =
                    format!("the answer has {length} bytes, more than the {} it may have", self.most);
                let answer = format!(r#"{{"id":{id},"error":{{"code":{TOO_LARGE},"message":"{message}"}}}}"#);
                to.write_all(&frame(answer.as_bytes())).await
            }
        }
    }
}

/// A short message as it goes over the wire.
fn frame(text: &[u8]) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    let mut frame = vec![0x81, 126];
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(text);
    frame
}

/// What a message is.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Answer(u64),
    Event(String),
}

impl Kind {
    /// By how it begins: browsers say this first.
    fn of(start: &[u8]) -> Option<Self> {
        let start = String::from_utf8_lossy(start);
        if let Some(rest) = start.strip_prefix(r#"{"method":""#) {
            return Some(Self::Event(rest.split_once('"')?.0.to_owned()));
        }
        let rest = start.strip_prefix(r#"{"id":"#)?;
        rest.split_once(',')?.0.parse().ok().map(Self::Answer)
    }
}

/// Passes `left` bytes on.
async fn hand_on(
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

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of a message.
    fn part(first: u8, text: &str) -> Vec<u8> {
        let mut part = frame(text.as_bytes());
        part[0] = first;
        part
    }

    async fn sieved(parts: &[Vec<u8>]) -> (io::Result<()>, Vec<u8>, Vec<String>) {
        let (sieve, mut passed) = (Sieve { most: 100, left_out: Arc::default() }, Vec::new());
        let ended = sieve.pass(parts.concat().as_slice(), &mut passed).await;
        (ended, passed, sieve.left_out.list())
    }

    #[tokio::test]
    async fn what_is_not_too_large_passes_as_it_is() {
        let short = [vec![0x81, 2], b"{}".to_vec()].concat();
        let parts = [short, part(0x01, &"a".repeat(60)), part(0x89, "ping"), part(0x80, &"b".repeat(40))];
        let (ended, passed, left_out) = sieved(&parts).await;
        ended.unwrap();
        assert_eq!((passed, left_out), (parts.concat(), Vec::new()));
    }

    #[tokio::test]
    async fn an_event_that_is_too_large_is_left_out_and_an_answer_says_so() {
        let long = "x".repeat(200);
        let event = part(0x81, &format!(r#"{{"method":"Runtime.consoleAPICalled","params":"{long}"}}"#));
        let answer = part(0x81, &format!(r#"{{"id":7,"result":"{long}"}}"#));
        let (ended, passed, left_out) = sieved(&[event, answer, part(0x81, "{}")]).await;
        ended.unwrap();
        assert_eq!(left_out, ["Runtime.consoleAPICalled (249 bytes)"]);
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
