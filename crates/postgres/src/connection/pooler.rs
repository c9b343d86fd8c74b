//! Detection of a connection pooler in front of the server.
//!
//! A server reports the id of its process when a connection begins, for cancel requests. A pooler
//! reports an id of its own, because a client has a server process only while it needs one.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The length of a cancel request: length, code, process id and secret.
const CANCEL_REQUEST_BYTES: usize = 16;

/// The process id that was reported. The driver reveals it only in a cancel request, so one is
/// written to memory.
pub(crate) async fn reported_process(client: &Client) -> Option<i32> {
    let stream = MemoryStream::default();
    client.cancel_token().cancel_query_raw(stream.clone(), NoEncryption).await.ok()?;
    let written = stream.0.lock().unwrap_or_else(PoisonError::into_inner);
    let request = written.get(written.len().checked_sub(CANCEL_REQUEST_BYTES)?..)?;
    let number = request.get(8..12)?;
    Some(i32::from_be_bytes(number.try_into().ok()?))
}

/// A stream that keeps what is written to it, and answers that encryption is accepted.
#[derive(Clone, Default)]
struct MemoryStream(Arc<Mutex<Vec<u8>>>);

impl AsyncRead for MemoryStream {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() > 0 {
            buf.put_slice(b"S");
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MemoryStream {
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

impl TlsStream for MemoryStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// A TLS connector that does not encrypt.
struct NoEncryption;

impl TlsConnect<MemoryStream> for NoEncryption {
    type Stream = MemoryStream;
    type Error = io::Error;
    type Future = Ready<io::Result<MemoryStream>>;

    fn connect(self, stream: MemoryStream) -> Self::Future {
        ready(Ok(stream))
    }
}
