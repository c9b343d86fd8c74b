//! Passing bytes on, both ways, without looking at them.
//!
//! What is read goes through a buffer of the thread, not of the connection: most sessions are silent most of the time,
//! and a silent one holds no buffer at all. Only what the other side does not take at once is kept, until it does.

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

/// How much is read at once: a large message of a browser takes few reads, and each thread has only one of these.
const CHUNK: usize = 64 << 10;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK].into_boxed_slice());
}

/// How much went through a connection, and when the last of it.
#[derive(Debug)]
pub(crate) struct Traffic {
    began: Instant,
    to_browser: AtomicU64,
    to_client: AtomicU64,
    /// Milliseconds from `began` to when bytes were last seen.
    last: AtomicU64,
}

impl Default for Traffic {
    fn default() -> Self {
        let zero = AtomicU64::default;
        Self { began: Instant::now(), to_browser: zero(), to_client: zero(), last: zero() }
    }
}

impl Traffic {
    /// Bytes that went to the browser, and to the client.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.to_browser.load(Ordering::Relaxed), self.to_client.load(Ordering::Relaxed))
    }

    /// For how long no bytes have been seen.
    pub(crate) fn idle(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    fn saw(&self, bytes: usize, counter: &AtomicU64) {
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }
}

/// A side of the connection, with what was read from it before.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) stream: TcpStream,
    pub(crate) early: Bytes,
}

/// Passes bytes on until one side is done or breaks. The other then has what was sent to it, and is closed by the caller.
pub(crate) async fn splice(client: Side, browser: Side, traffic: &Traffic) -> io::Result<()> {
    let (from_client, to_client) = client.stream.into_split();
    let (from_browser, to_browser) = browser.stream.into_split();
    let up = Pump { from: from_client, to: to_browser, rest: client.early };
    let down = Pump { from: from_browser, to: to_client, rest: browser.early };
    // Neither half of a WebSocket goes on without the other, so the first end is the end.
    tokio::select! {
        end = up.run(|bytes| traffic.saw(bytes, &traffic.to_browser)) => end,
        end = down.run(|bytes| traffic.saw(bytes, &traffic.to_client)) => end,
    }
}

/// One direction.
struct Pump {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    /// What was read and not yet taken.
    rest: Bytes,
}

impl Pump {
    async fn run(mut self, saw: impl Fn(usize)) -> io::Result<()> {
        if !self.rest.is_empty() {
            saw(self.rest.len());
        }
        poll_fn(|cx| self.poll(cx, &saw)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>, saw: &impl Fn(usize)) -> Poll<io::Result<()>> {
        loop {
            while !self.rest.is_empty() {
                let written = ready!(Pin::new(&mut self.to).poll_write(cx, &self.rest))?;
                self.rest.advance(written);
            }
            self.rest = Bytes::new();
            if ready!(self.pass_on(cx, saw))? == 0 {
                return Pin::new(&mut self.to).poll_shutdown(cx);
            }
        }
    }

    /// Reads once and writes what the other side takes.
    fn pass_on(&mut self, cx: &mut Context<'_>, saw: &impl Fn(usize)) -> Poll<io::Result<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut read = ReadBuf::new(scratch);
            ready!(Pin::new(&mut self.from).poll_read(cx, &mut read))?;
            let bytes = read.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(0));
            }
            saw(bytes.len());
            let written = match Pin::new(&mut self.to).poll_write(cx, bytes)? {
                Poll::Ready(written) => written,
                Poll::Pending => 0,
            };
            self.rest = Bytes::copy_from_slice(&bytes[written..]);
            Poll::Ready(Ok(bytes.len()))
        })
    }
}
