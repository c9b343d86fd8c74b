//! A running session: copies bytes both ways until one side ends or a limit is reached.

use std::future::pending;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::TcpStream;

use super::open::OpenedSession;
use super::shared::GatewayShared;
use crate::lease::CloseReason;
use crate::net::{PeerStream, Traffic, splice};

/// Why a session's connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SessionEnd {
    /// The client or the browser closed it.
    Done,
    /// Its end was requested.
    Closed,
    /// Another holder has the session.
    Lost,
    /// Another connection took it over.
    TakenOver,
    /// It reached its longest duration.
    SessionTime,
    /// It was idle for too long.
    IdleTime,
    /// The gateway stops.
    Stopping,
}

impl SessionEnd {
    pub(crate) const ALL: [Self; 7] = [
        Self::Done,
        Self::Closed,
        Self::Lost,
        Self::TakenOver,
        Self::SessionTime,
        Self::IdleTime,
        Self::Stopping,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Closed => "closed",
            Self::Lost => "lost",
            Self::TakenOver => "taken_over",
            Self::SessionTime => "session_time",
            Self::IdleTime => "idle_time",
            Self::Stopping => "stopping",
        }
    }
}

/// Runs a session to its end.
pub(crate) async fn run(shared: &GatewayShared, opened: OpenedSession, client: TcpStream, read_ahead: Bytes) {
    let OpenedSession { held, browser, traffic, close, deadline, client_token: _client_token } = opened;
    shared.metrics.record_opened();
    let started = Instant::now();
    tracing::info!(session = %held.session, "session opened");
    let end = tokio::select! {
        // A broken connection ends the session like a closed one.
        _ = splice(PeerStream { stream: client, read_ahead }, browser, &traffic) => SessionEnd::Done,
        reason = close.requested() => match reason {
            CloseReason::Closed => SessionEnd::Closed,
            CloseReason::TakenOver => SessionEnd::TakenOver,
            CloseReason::Lost => SessionEnd::Lost,
        },
        end = wait_for_limit(shared, &traffic, deadline) => end,
        () = shared.closing.cancelled() => SessionEnd::Stopping,
    };
    let (sent, received) = traffic.bytes();
    let (session, duration, reason) = (held.session.clone(), started.elapsed(), end.as_str());
    tracing::info!(%session, reason, ?duration, to_browser = sent, to_client = received, "session ended");
    shared.metrics.record_ended(end, traffic.bytes());
    match end {
        // Nobody will reconnect.
        SessionEnd::SessionTime | SessionEnd::IdleTime | SessionEnd::Closed => held.end_session(),
        SessionEnd::Done | SessionEnd::Lost | SessionEnd::TakenOver | SessionEnd::Stopping => drop(held),
    }
}

/// Completes when a session reaches its longest duration or was idle for too long.
async fn wait_for_limit(shared: &GatewayShared, traffic: &Traffic, deadline: Option<Instant>) -> SessionEnd {
    let duration = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            None => pending().await,
        }
    };
    let idle = async {
        match shared.options.idle_time {
            Some(time) => wait_until_idle(traffic, time).await,
            None => pending().await,
        }
    };
    tokio::select! {
        () = duration => SessionEnd::SessionTime,
        () = idle => SessionEnd::IdleTime,
    }
}

/// Sleeps until the idle time could be over at the earliest, so a busy session costs nothing.
async fn wait_until_idle(traffic: &Traffic, time: Duration) {
    while let Some(remaining) = time.checked_sub(traffic.idle()).filter(|remaining| !remaining.is_zero()) {
        tokio::time::sleep(remaining).await;
    }
}
