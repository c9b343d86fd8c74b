//! A session that runs: bytes go both ways until one side is done, or it has to end.

use std::future::pending;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::TcpStream;

use super::desk::Desk;
use super::holdings::Cut;
use super::open::Opened;
use crate::wire::{Side, Traffic, splice};

/// Why a session's connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum End {
    /// Client or browser closed it.
    Done,
    /// Somebody asked for it.
    Closed,
    /// The session is another's.
    Lost,
    /// Another connection took it over.
    TakenOver,
    /// It has lasted long enough.
    Time,
    /// It was silent for too long.
    Idle,
    /// The gateway ends.
    Stopping,
}

impl End {
    pub(crate) const ALL: [Self; 7] =
        [Self::Done, Self::Closed, Self::Lost, Self::TakenOver, Self::Time, Self::Idle, Self::Stopping];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Closed => "closed",
            Self::Lost => "lost",
            Self::TakenOver => "taken_over",
            Self::Time => "session_time",
            Self::Idle => "idle_time",
            Self::Stopping => "stopping",
        }
    }
}

/// Runs a session to its end.
pub(crate) async fn run(desk: &Desk, opened: Opened, client: TcpStream, early: Bytes) {
    let Opened { hold, browser, traffic, cut, ends, visit: _visit } = opened;
    desk.metrics.opened();
    let began = Instant::now();
    tracing::info!(session = %hold.session, "session opened");
    let end = tokio::select! {
        // A side that breaks ends the session as one that closes does.
        _ = splice(Side { stream: client, early }, browser, &traffic) => End::Done,
        why = cut => match why {
            Ok(Cut::Closed) => End::Closed,
            Ok(Cut::TakenOver) => End::TakenOver,
            Ok(Cut::Lost) | Err(_) => End::Lost,
        },
        end = over(desk, &traffic, ends) => end,
        () = desk.closing.cancelled() => End::Stopping,
    };
    let (sent, received) = traffic.bytes();
    let (session, lasted, why) = (hold.session.clone(), began.elapsed(), end.word());
    tracing::info!(%session, why, ?lasted, to_browser = sent, to_client = received, "session ended");
    desk.metrics.ended(end, traffic.bytes());
    match end {
        // Nobody is coming back.
        End::Time | End::Idle | End::Closed => hold.end(),
        End::Done | End::Lost | End::TakenOver | End::Stopping => drop(hold),
    }
}

/// Completes when a session has lasted, or been silent, for too long.
async fn over(desk: &Desk, traffic: &Traffic, ends: Option<Instant>) -> End {
    let lasted = async {
        match ends {
            Some(ends) => tokio::time::sleep_until(ends.into()).await,
            None => pending().await,
        }
    };
    let silent = async {
        match desk.options.idle_time {
            Some(time) => silence(traffic, time).await,
            None => pending().await,
        }
    };
    tokio::select! {
        () = lasted => End::Time,
        () = silent => End::Idle,
    }
}

/// Looks when the time could be over at the earliest, which costs a busy session nothing.
async fn silence(traffic: &Traffic, time: Duration) {
    while let Some(rest) = time.checked_sub(traffic.idle()).filter(|rest| !rest.is_zero()) {
        tokio::time::sleep(rest).await;
    }
}
