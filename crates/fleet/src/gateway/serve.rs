//! A gateway from its first client to its last.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::desk::Desk;
use super::{Gateway, ServeError, connection, ear, keeper, reaper};

/// How long to wait when nobody can be accepted, as when there are no more files to be had.
const PAUSE: Duration = Duration::from_millis(100);

/// How long connections may take to close when they have to.
const TO_CLOSE: Duration = Duration::from_secs(5);

impl Gateway {
    /// Refuses a lease that is too short, and an address at which others than this machine's users could use the browsers
    /// without a token.
    pub fn check(&self, address: std::net::SocketAddr) -> Result<(), ServeError> {
        self.options.lease.check()?;
        if address.ip().to_canonical().is_loopback() || !self.door.tokens.is_empty() {
            return Ok(());
        }
        Err(ServeError::Exposed(address))
    }

    /// Serves clients until `shutdown` completes. Then nobody new gets a browser, who waits for one is sent away, and
    /// sessions may go on for the [`grace`](Self::grace); after that they are closed. Everything that is held is given back,
    /// but for sessions that are to outlive their connection: another gateway finds them.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        self.check(listener.local_addr()?)?;
        let (desk, stop) = (Desk::new(self), CancellationToken::new());
        let (clients, parts) = (TaskTracker::new(), start(&desk, &stop));
        tokio::select! {
            never = accept(&desk, listener, &clients) => match never {},
            () = wind_down(&desk, shutdown) => {}
        }
        desk.closing.cancel();
        clients.close();
        if tokio::time::timeout(TO_CLOSE, clients.wait()).await.is_err() {
            tracing::warn!(left = clients.len(), "some connections did not close in time");
        }
        stop.cancel();
        parts.wait().await;
        Ok(())
    }
}

/// Starts what runs beside the clients.
fn start(desk: &Arc<Desk>, stop: &CancellationToken) -> TaskTracker {
    let parts = TaskTracker::new();
    let (keeper, ear, reaper) = (desk.clone(), desk.clone(), desk.clone());
    let (first, second, third) = (stop.clone(), stop.clone(), stop.clone());
    parts.spawn(async move { keeper::run(&keeper, first).await });
    parts.spawn(async move { ear::run(&ear, second).await });
    parts.spawn(async move { reaper::run(&reaper, third).await });
    parts.close();
    parts
}

/// Accepts clients, as many as there may be.
async fn accept(desk: &Arc<Desk>, listener: TcpListener, clients: &TaskTracker) -> std::convert::Infallible {
    let places = Arc::new(Semaphore::new(desk.options.connections.min(Semaphore::MAX_PERMITS)));
    loop {
        // It is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { std::future::pending().await };
        match listener.accept().await {
            Ok((stream, client)) => {
                let desk = desk.clone();
                clients.spawn(async move {
                    connection::serve(desk, stream, client).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a client could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Completes when it is time to close what is left. Until then questions are still answered: also the one whether this
/// gateway is ready, which it is not.
async fn wind_down(desk: &Desk, shutdown: impl Future<Output = ()> + Send) {
    shutdown.await;
    desk.stopping.cancel();
    desk.visits.close();
    tokio::select! {
        () = desk.visits.wait() => {}
        () = tokio::time::sleep(desk.options.grace) => {}
        () = desk.options.hurry.cancelled() => {}
    }
}
