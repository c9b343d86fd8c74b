//! Network faults: a proxy that cuts, holds and rejects connections on request.

mod connection;
mod plan;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use plan::FaultPlan;

/// A proxy on a loopback port. It forwards everything until a fault is set; dropping it cuts all
/// connections.
pub struct Proxy {
    address: SocketAddr,
    upstream: SocketAddr,
    plan: Arc<FaultPlan>,
    /// The task that accepts connections; `None` while they are rejected.
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

impl Proxy {
    /// Starts a proxy to a loopback port.
    pub async fn to(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let plan = Arc::new(FaultPlan::default());
        let acceptor = tokio::spawn(accept(listener, upstream, plan.clone()));
        Ok(Self { address, upstream, plan, acceptor: Mutex::new(Some(acceptor)) })
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `url` with the upstream's port replaced by the proxy's.
    pub fn url(&self, url: &str) -> String {
        url.replace(&format!(":{}", self.upstream.port()), &format!(":{}", self.port()))
    }

    /// Cuts every open connection. New ones are forwarded.
    pub fn cut(&self) {
        self.plan.cut();
    }

    /// Stops forwarding on all connections without closing them, like a network failure.
    pub fn black_hole(&self) {
        self.plan.set_held(true);
    }

    /// Forwards the next request and cuts its connection instead of returning the answer. The
    /// client cannot know whether the request took effect.
    pub fn drop_next_answer(&self) {
        self.drop_answer_to("");
    }

    /// The same for the next request that contains `text` in one piece.
    pub fn drop_answer_to(&self, text: &str) {
        self.plan.drop_answer_to(text, 0);
    }

    /// The same for the request after this many others.
    pub fn drop_answer_after(&self, requests: usize) {
        self.plan.drop_answer_to("", requests);
    }

    /// Cancels the planned drop of an answer.
    pub fn drop_nothing(&self) {
        self.plan.drop_nothing();
    }

    /// How many answers were dropped so far.
    pub fn answers_dropped(&self) -> usize {
        self.plan.answers_dropped()
    }

    /// Rejects new connections. Open ones continue.
    pub async fn refuse(&self) {
        let acceptor = self.acceptor().take();
        if let Some(acceptor) = acceptor {
            acceptor.abort();
            // Once the task has ended, the port is closed.
            let _ = acceptor.await;
        }
    }

    /// Forwards everything again. Data held since [`black_hole`](Self::black_hole) is delivered
    /// late, and new connections are accepted.
    pub async fn resume(&self) -> io::Result<()> {
        self.plan.set_held(false);
        if self.acceptor().is_some() {
            return Ok(());
        }
        let listener = TcpListener::bind(self.address).await?;
        let acceptor = tokio::spawn(accept(listener, self.upstream, self.plan.clone()));
        *self.acceptor() = Some(acceptor);
        Ok(())
    }

    fn acceptor(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.acceptor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(acceptor) = self.acceptor().take() {
            acceptor.abort();
        }
        self.plan.cut();
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, plan: Arc<FaultPlan>) {
    // A connection task ends with its client, its server or a cut, so nothing waits for it.
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(connection::forward(client, upstream, plan.clone()));
    }
}
