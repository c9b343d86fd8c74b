//! The proxy of one job: a port of its own, open for as long as the job runs.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::trace;

use super::ledger::Ledger;
use super::reach::Reach;
use super::relay::Relay;

/// A proxy that lets through what a [`Reach`] allows. Dropping it cuts every connection.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    ledger: Arc<Ledger>,
    _open: DropGuard,
}

/// Who may use a proxy.
#[derive(Debug, Clone)]
pub(crate) enum Peers {
    /// Programs on this machine.
    Local,
    /// The machines with these addresses.
    At(Vec<IpAddr>),
}

impl Peers {
    fn include(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        match self {
            Self::Local => peer.is_loopback(),
            Self::At(addresses) => addresses.iter().any(|address| address.to_canonical() == peer),
        }
    }
}

impl Proxy {
    /// Opens a port at `listen`. A port per job tells whose requests are refused, and ends with it.
    pub(crate) async fn open(listen: IpAddr, reach: Arc<Reach>, peers: Peers) -> io::Result<Self> {
        let listener = TcpListener::bind((listen, 0)).await?;
        let (address, ledger) = (listener.local_addr()?, Arc::<Ledger>::default());
        let end = CancellationToken::new();
        let relay = Relay { reach, ledger: ledger.clone(), end: end.clone() };
        // Owned by the guard: every task of a proxy ends with its token.
        tokio::spawn(end.clone().run_until_cancelled_owned(accept(listener, relay, peers)));
        Ok(Self { address, ledger, _open: end.drop_guard() })
    }

    /// Where it is.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// What it did not let through.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }
}

async fn accept(listener: TcpListener, relay: Relay, peers: Peers) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) if peers.include(peer.ip()) => {
                let end = relay.end.clone();
                tokio::spawn(end.run_until_cancelled_owned(serve(stream, relay.clone())));
            }
            Ok((_, peer)) => trace!(%peer, "not for you"),
            // Out of file descriptors, most likely: others may end meanwhile.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}

async fn serve(stream: TcpStream, relay: Relay) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| relay.clone().answer(request));
    let mut server = http1::Builder::new();
    let server = server.preserve_header_case(true).serve_connection(TokioIo::new(stream), service);
    if let Err(error) = server.with_upgrades().await {
        trace!("a connection to the proxy ended: {error}");
    }
}
