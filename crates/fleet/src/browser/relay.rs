//! The relay between a job and its browser: a loopback port for one connection, with a
//! [`FrameLimit`] behind it.
//!
//! chromiumoxide opens its own connection and accepts neither another stream nor a size limit. So it
//! connects to the relay, and the relay to the browser.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::connection::dial_browser;
use super::frame_limit::FrameLimit;
use crate::net::{PeerStream, UpgradeRequest, configure_socket, encode_response};

/// How long another local program that has connected may take to send a request. Our own client
/// sends it at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Accepts one connection.
pub(super) struct RelayListener {
    listener: TcpListener,
    address: SocketAddr,
    /// Unguessable for other programs on this machine.
    path: String,
}

/// The connections to the job and to the browser.
pub(super) struct Relay {
    job: PeerStream,
    browser: PeerStream,
    limit: FrameLimit,
}

impl RelayListener {
    pub(super) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, path: format!("/{}", uuid::Uuid::new_v4().simple()) })
    }

    /// The URL to connect to.
    pub(super) fn endpoint(&self) -> String {
        format!("ws://{}{}", self.address, self.path)
    }

    /// Accepts the job's connection and connects it to the browser at `endpoint`.
    pub(super) async fn connect(self, endpoint: &str, limit: FrameLimit) -> Result<Relay, String> {
        let (mut stream, request) = self.accept().await.map_err(|error| error.to_string())?;
        let response = dial_browser(endpoint, &request.headers).await?;
        stream.write_all(&encode_response(&response.headers)).await.map_err(|error| error.to_string())?;
        let job = PeerStream { stream, read_ahead: request.read_ahead };
        Ok(Relay { job, browser: response.stream, limit })
    }

    /// Accepts the connection that knows the path. Others must not delay it.
    async fn accept(&self) -> io::Result<(TcpStream, UpgradeRequest)> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            configure_socket(&stream)?;
            if let Ok(Ok(Some(request))) = timeout(REQUEST_TIMEOUT, UpgradeRequest::read(&mut stream)).await
                && request.path == self.path
            {
                return Ok((stream, request));
            }
        }
    }
}

impl Relay {
    /// Copies messages until one side ends.
    pub(super) async fn run(self) -> io::Result<()> {
        let (from_job, to_job) = self.job.stream.into_split();
        let (from_browser, mut to_browser) = self.browser.stream.into_split();
        let early = std::io::Cursor::new(self.browser.read_ahead);
        let up = async {
            to_browser.write_all(&self.job.read_ahead).await?;
            tokio::io::copy(&mut { from_job }, &mut to_browser).await.map(drop)
        };
        // A WebSocket ends when either direction ends.
        tokio::select! {
            end = up => end,
            end = self.limit.copy_messages(early.chain(from_browser), to_job) => end,
        }
    }
}
