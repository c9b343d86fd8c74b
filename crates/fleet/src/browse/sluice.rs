//! The way from a job to its browser: a port on this machine's loopback, for one connection, with a [`Sieve`] behind it.
//!
//! What drives browsers here opens its own connection and takes no other, nor a limit. So it connects to this, and this to
//! the browser.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::sieve::Sieve;
use crate::wire::{Endpoint, Request, Side, agreement, dial, tune};

/// How long somebody who has connected may take to say what they want. We ourselves say it at once.
const STRANGER: Duration = Duration::from_secs(1);

/// Open for one connection.
pub(super) struct Sluice {
    listener: TcpListener,
    address: SocketAddr,
    /// Nobody else on this machine knows it.
    key: String,
}

/// The connection, on both sides.
pub(super) struct Passage {
    job: Side,
    browser: Side,
    sieve: Sieve,
}

impl Sluice {
    pub(super) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, key: format!("/{}", uuid::Uuid::new_v4().simple()) })
    }

    /// Where to connect to.
    pub(super) fn endpoint(&self) -> String {
        format!("ws://{}{}", self.address, self.key)
    }

    /// Waits for the connection and leads it to the browser at `endpoint`, which has `limit` to answer.
    pub(super) async fn lead(self, endpoint: &str, limit: Duration, sieve: Sieve) -> Result<Passage, String> {
        let endpoint = Endpoint::parse(endpoint)
            .ok_or_else(|| format!("its address is wrong: {endpoint:?} is no plain WebSocket"))?;
        let (mut stream, request) = self.receive().await.map_err(|error| error.to_string())?;
        let answer = dial(&endpoint, &request.headers, limit).await.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        })?;
        stream.write_all(&agreement(&answer.headers)).await.map_err(|error| error.to_string())?;
        let job = Side { stream, early: request.early };
        Ok(Passage { job, browser: answer.side, sieve })
    }

    /// The connection of whoever knows the key. Others must not hold it up.
    async fn receive(&self) -> io::Result<(TcpStream, Request)> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            tune(&stream)?;
            if let Ok(Ok(Some(request))) = timeout(STRANGER, Request::read(&mut stream)).await
                && request.path == self.key
            {
                return Ok((stream, request));
            }
        }
    }
}

impl Passage {
    /// Passes messages on until one side has ended.
    pub(super) async fn run(self) -> io::Result<()> {
        let (from_job, to_job) = self.job.stream.into_split();
        let (from_browser, mut to_browser) = self.browser.stream.into_split();
        let early = std::io::Cursor::new(self.browser.early);
        let up = async {
            to_browser.write_all(&self.job.early).await?;
            tokio::io::copy(&mut { from_job }, &mut to_browser).await.map(drop)
        };
        // Neither half of a WebSocket goes on without the other.
        tokio::select! {
            end = up => end,
            end = self.sieve.pass(early.chain(from_browser), to_job) => end,
        }
    }
}
