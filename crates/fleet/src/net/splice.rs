//! Copying bytes both ways without inspecting them.
//!
//! Reads go through a buffer of the thread, not of the connection: most sessions are idle most of
//! the time, and an idle one holds no buffer. Only bytes that the other side does not accept at
//! once are stored.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Size of a read: a large message takes few reads, and each thread has only one buffer.
const READ_BUFFER_BYTES: usize = 64 << 10;

thread_local! {
    static READ_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BUFFER_BYTES].into_boxed_slice());
}

/// Byte counts of a connection, and the time of its last activity.
#[derive(Debug)]
pub(crate) struct Traffic {
    started_at: Instant,
    to_browser: AtomicU64,
    to_client: AtomicU64,
    /// Milliseconds from `started_at` to the last activity.
    last_activity_ms: AtomicU64,
}

impl Default for Traffic {
    fn default() -> Self {
        let zero = AtomicU64::default;
        Self { started_at: Instant::now(), to_browser: zero(), to_client: zero(), last_activity_ms: zero() }
    }
}

impl Traffic {
    /// Bytes sent to the browser and to the client.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.to_browser.load(Ordering::Relaxed), self.to_client.load(Ordering::Relaxed))
    }

    /// How long no bytes have been copied.
    pub(crate) fn idle(&self) -> Duration {
        self.started_at
            .elapsed()
            .saturating_sub(Duration::from_millis(self.last_activity_ms.load(Ordering::Relaxed)))
    }

    fn record(&self, bytes: usize, counter: &AtomicU64) {
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
        let now = u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_activity_ms.store(now, Ordering::Relaxed);
    }
}

/// A stream, with bytes that were read from it already.
#[derive(Debug)]
pub(crate) struct PeerStream {
    pub(crate) stream: TcpStream,
    pub(crate) read_ahead: Bytes,
}

/// Copies bytes until one side ends or fails. The other side has received everything by then, and
/// the caller closes it.
pub(crate) async fn splice(client: PeerStream, browser: PeerStream, traffic: &Traffic) -> io::Result<()> {
    let (from_client, to_client) = client.stream.into_split();
    let (from_browser, to_browser) = browser.stream.into_split();
    let upstream = OneWayCopy { from: from_client, to: to_browser, unwritten: client.read_ahead };
    let downstream = OneWayCopy { from: from_browser, to: to_client, unwritten: browser.read_ahead };
    // A WebSocket ends when either direction ends.
    tokio::select! {
        end = upstream.run(|bytes| traffic.record(bytes, &traffic.to_browser)) => end,
        end = downstream.run(|bytes| traffic.record(bytes, &traffic.to_client)) => end,
    }
}

/// One direction of a connection.
struct OneWayCopy {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    /// Bytes that were read and not yet written.
    unwritten: Bytes,
}

impl OneWayCopy {
    async fn run(mut self, record: impl Fn(usize)) -> io::Result<()> {
        if !self.unwritten.is_empty() {
            record(self.unwritten.len());
        }
        poll_fn(|cx| self.poll(cx, &record)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>, record: &impl Fn(usize)) -> Poll<io::Result<()>> {
        loop {
            while !self.unwritten.is_empty() {
                let written = ready!(Pin::new(&mut self.to).poll_write(cx, &self.unwritten))?;
                self.unwritten.advance(written);
            }
            self.unwritten = Bytes::new();
            if ready!(self.copy_once(cx, record))? == 0 {
                return Pin::new(&mut self.to).poll_shutdown(cx);
            }
        }
    }

    /// Reads once and writes what the other side accepts.
    fn copy_once(&mut self, cx: &mut Context<'_>, record: &impl Fn(usize)) -> Poll<io::Result<usize>> {
        READ_BUFFER.with_borrow_mut(|scratch| {
            let mut read = ReadBuf::new(scratch);
            ready!(Pin::new(&mut self.from).poll_read(cx, &mut read))?;
            let bytes = read.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(0));
            }
            record(bytes.len());
            let written = match Pin::new(&mut self.to).poll_write(cx, bytes)? {
                Poll::Ready(written) => written,
                Poll::Pending => 0,
            };
            self.unwritten = Bytes::copy_from_slice(&bytes[written..]);
            Poll::Ready(Ok(bytes.len()))
        })
    }
}
