//! The server's clock, estimated between two reads of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tidemill_core::{Clock, Timestamp};

/// Extrapolates the server's time with this machine's monotonic clock, which is never set back.
#[derive(Debug)]
pub(crate) struct ServerClock {
    anchor: Mutex<Anchor>,
}

/// One reading: the local time and the server's time at the same moment.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    local: Instant,
    server: Timestamp,
}

impl ServerClock {
    /// A clock that shows the time of this process until it is set.
    pub(crate) fn new() -> Self {
        Self { anchor: Mutex::new(Anchor { local: Instant::now(), server: Timestamp::now() }) }
    }

    /// Sets the clock. The server read `server` at some moment between `asked` and now.
    pub(crate) fn set(&self, asked: Instant, server: Timestamp) {
        let local = asked + asked.elapsed() / 2;
        *self.lock() = Anchor { local, server };
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Anchor> {
        self.anchor.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        let Anchor { local, server } = *self.lock();
        // Rounded down, as the server's own time is.
        Timestamp(server.0.saturating_add(i64::try_from(local.elapsed().as_millis()).unwrap_or(i64::MAX)))
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
