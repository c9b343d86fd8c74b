//! Whether a connection leads to the server itself or to a pooler in front of it.
//!
//! A server announces the number of its process when a connection begins; it is needed to cancel a query. A pooler
//! announces a number of its own, because a client has a process of the server only while it needs one.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The length of a request to cancel: its length, its code, the number of the process, and a secret.
const REQUEST: usize = 16;

/// The number of the process that was announced. The driver shows it only in a request to cancel, so one is written to
/// memory.
pub(crate) async fn announced_process(client: &Client) -> Option<i32> {
    let paper = Paper::default();
    client.cancel_token().cancel_query_raw(paper.clone(), Plain).await.ok()?;
    let written = paper.0.lock().unwrap_or_else(PoisonError::into_inner);
    let request = written.get(written.len().checked_sub(REQUEST)?..)?;
    let number = request.get(8..12)?;
    Some(i32::from_be_bytes(number.try_into().ok()?))
}

/// A stream that keeps what is written to it, and answers that encryption is fine.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl AsyncRead for Paper {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() > 0 {
            buf.put_slice(b"S");
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paper {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl TlsStream for Paper {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// Encryption that encrypts nothing.
struct Plain;

impl TlsConnect<Paper> for Plain {
    type Stream = Paper;
    type Error = io::Error;
    type Future = Ready<io::Result<Paper>>;

    fn connect(self, stream: Paper) -> Self::Future {
        ready(Ok(stream))
    }
}
