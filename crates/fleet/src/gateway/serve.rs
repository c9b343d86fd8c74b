//! The life of a gateway: accept, drain, close.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::shared::GatewayShared;
use super::{Gateway, ServeError, connection, reaper};

/// Delay after a failed accept, for example without free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// How long connections may take to close in the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

impl Gateway {
    /// Rejects a lease that is too short, and a non-loopback address without a token.
    pub fn check(&self, address: std::net::SocketAddr) -> Result<(), ServeError> {
        self.options.lease.check()?;
        if address.ip().to_canonical().is_loopback() || !self.access.tokens.is_empty() {
            return Ok(());
        }
        Err(ServeError::Exposed(address))
    }

    /// Serves clients until `shutdown` completes. After that, no new client gets a browser, and
    /// waiting clients get an error. Sessions may continue for the [`grace`](Self::grace) period
    /// and are closed then. All sessions are released, except those that outlive their connection:
    /// clients reach them through another gateway.
    ///
    /// # Errors
    /// [`ServeError::Exposed`] and [`ServeError::Lease`] as [`check`](Self::check), or an error of the
    /// listener.
    ///
    /// # Cancel safety
    /// Not cancel safe: complete `shutdown` instead, so that sessions end in order and their browsers
    /// are released.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        self.check(listener.local_addr()?)?;
        let (shared, stop) = (GatewayShared::new(self), CancellationToken::new());
        let (clients, tasks) = (TaskTracker::new(), start_tasks(&shared, &stop));
        tokio::select! {
            never = accept(&shared, listener, &clients) => match never {},
            () = drain(&shared, shutdown) => {}
        }
        shared.closing.cancel();
        clients.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, clients.wait()).await.is_err() {
            tracing::warn!(left = clients.len(), "connections did not close in time");
        }
        stop.cancel();
        tasks.wait().await;
        Ok(())
    }
}

/// Starts the background tasks.
fn start_tasks(shared: &Arc<GatewayShared>, stop: &CancellationToken) -> TaskTracker {
    let tasks = TaskTracker::new();
    let (leases, reap) = (shared.leases.clone(), shared.clone());
    let (first, second) = (stop.clone(), stop.clone());
    tasks.spawn(async move { leases.run(first).await });
    tasks.spawn(async move { reaper::run(&reap, second).await });
    tasks.close();
    tasks
}

/// Accepts clients up to the connection limit.
async fn accept(
    shared: &Arc<GatewayShared>,
    listener: TcpListener,
    clients: &TaskTracker,
) -> std::convert::Infallible {
    let permits = Arc::new(Semaphore::new(shared.options.max_connections.min(Semaphore::MAX_PERMITS)));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = permits.clone().acquire_owned().await else { std::future::pending().await };
        match listener.accept().await {
            Ok((stream, client)) => {
                let shared = shared.clone();
                clients.spawn(async move {
                    connection::serve(shared, stream, client).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Completes when the remaining connections must close. Until then requests are still answered,
/// also `/readyz`, which reports that the gateway is stopping.
async fn drain(shared: &GatewayShared, shutdown: impl Future<Output = ()> + Send) {
    shutdown.await;
    shared.stopping.cancel();
    shared.browser_clients.close();
    tokio::select! {
        () = shared.browser_clients.wait() => {}
        () = tokio::time::sleep(shared.options.grace) => {}
        () = shared.options.skip_grace.cancelled() => {}
    }
}
