//! The egress proxy of one job: a port that is open while the job runs.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::trace;

use super::blocked::BlockedLog;
use super::forward::Forwarder;
use super::policy::EgressPolicy;

/// A proxy that lets through what an [`EgressPolicy`] allows. Dropping it closes every connection.
#[derive(Debug)]
pub(crate) struct EgressProxy {
    address: SocketAddr,
    blocked: Arc<BlockedLog>,
    _open: DropGuard,
}

/// Who may use a proxy.
#[derive(Debug, Clone)]
pub(crate) enum ProxyClients {
    /// Programs on this machine.
    Local,
    /// The machines with these addresses.
    At(Vec<IpAddr>),
}

impl ProxyClients {
    fn contains(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        match self {
            Self::Local => peer.is_loopback(),
            Self::At(addresses) => addresses.iter().any(|address| address.to_canonical() == peer),
        }
    }
}

impl EgressProxy {
    /// Opens a port at `listen`. Each job has its own port, which identifies its requests and
    /// closes with it.
    pub(crate) async fn open(
        listen: IpAddr,
        policy: Arc<EgressPolicy>,
        peers: ProxyClients,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((listen, 0)).await?;
        let (address, blocked) = (listener.local_addr()?, Arc::<BlockedLog>::default());
        let shutdown = CancellationToken::new();
        let forwarder = Forwarder { policy, blocked: blocked.clone(), shutdown: shutdown.clone() };
        // The drop guard owns the task: every task of a proxy ends with its token.
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(accept(listener, forwarder, peers)));
        Ok(Self { address, blocked, _open: shutdown.drop_guard() })
    }

    /// The port it listens at.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// What it did not let through.
    pub(crate) fn blocked(&self) -> &Arc<BlockedLog> {
        &self.blocked
    }
}

async fn accept(listener: TcpListener, forwarder: Forwarder, peers: ProxyClients) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) if peers.contains(peer.ip()) => {
                let shutdown = forwarder.shutdown.clone();
                tokio::spawn(shutdown.run_until_cancelled_owned(serve(stream, forwarder.clone())));
            }
            Ok((_, peer)) => trace!(%peer, "connection refused: not a client of this proxy"),
            // Probably out of file descriptors; other connections may close meanwhile.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}

async fn serve(stream: TcpStream, forwarder: Forwarder) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| forwarder.clone().handle(request));
    let mut server = http1::Builder::new();
    let server = server.preserve_header_case(true).serve_connection(TokioIo::new(stream), service);
    if let Err(error) = server.with_upgrades().await {
        trace!("a connection to the proxy ended: {error}");
    }
}
