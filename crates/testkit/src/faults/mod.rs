//! Faults on the way to a server: a proxy that cuts, swallows and refuses as it is told.

mod line;
mod plan;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use plan::Plan;

/// A proxy on a loopback port. Everything passes until it is told otherwise; dropping it cuts everything.
pub struct Proxy {
    address: SocketAddr,
    upstream: SocketAddr,
    plan: Arc<Plan>,
    /// Who takes new connections; nobody while they are refused.
    door: Mutex<Option<JoinHandle<()>>>,
}

impl Proxy {
    /// A proxy to a loopback port.
    pub async fn to(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let plan = Arc::new(Plan::default());
        let door = tokio::spawn(accept(listener, upstream, plan.clone()));
        Ok(Self { address, upstream, plan, door: Mutex::new(Some(door)) })
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `url` with the upstream's port replaced by the proxy's.
    pub fn url(&self, url: &str) -> String {
        url.replace(&format!(":{}", self.upstream.port()), &format!(":{}", self.port()))
    }

    /// Cuts every connection there is. New ones pass.
    pub fn cut(&self) {
        self.plan.cut();
    }

    /// Stops passing anything on, on connections old and new, without closing them: a network that is gone.
    pub fn black_hole(&self) {
        self.plan.hold(true);
    }

    /// Passes the next request on and cuts its connection in place of the answer: whether it took effect, the
    /// client cannot know.
    pub fn drop_next_answer(&self) {
        self.drop_answer_to("");
    }

    /// The same for the next request that contains `text` in one piece.
    pub fn drop_answer_to(&self, text: &str) {
        self.plan.drop_answer_to(text, 0);
    }

    /// The same for the request that comes after so many others.
    pub fn drop_answer_after(&self, requests: usize) {
        self.plan.drop_answer_to("", requests);
    }

    /// Drops no answer after all.
    pub fn drop_nothing(&self) {
        self.plan.drop_nothing();
    }

    /// How many answers were dropped so far.
    pub fn answers_dropped(&self) -> usize {
        self.plan.answers_dropped()
    }

    /// Refuses new connections. Those there are go on.
    pub async fn refuse(&self) {
        let door = self.door().take();
        if let Some(door) = door {
            door.abort();
            // When it has ended, the port is closed.
            let _ = door.await;
        }
    }

    /// Lets everything pass again: what was swallowed since [`black_hole`](Self::black_hole) is delivered late,
    /// and new connections are taken.
    pub async fn resume(&self) -> io::Result<()> {
        self.plan.hold(false);
        if self.door().is_some() {
            return Ok(());
        }
        let listener = TcpListener::bind(self.address).await?;
        let door = tokio::spawn(accept(listener, self.upstream, self.plan.clone()));
        *self.door() = Some(door);
        Ok(())
    }

    fn door(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(door) = self.door().take() {
            door.abort();
        }
        self.plan.cut();
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, plan: Arc<Plan>) {
    // A line ends with its client, its server or a cut; nobody has to wait for it.
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(line::carry(client, upstream, plan.clone()));
    }
}
