//! The server's clock, as well as it is known between two looks at it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tidemill_core::{Clock, Timestamp};

/// Counts on from the server's time with this machine's monotonic clock, which nobody sets back.
#[derive(Debug)]
pub(crate) struct ServerClock {
    anchor: Mutex<Anchor>,
}

#[derive(Debug, Clone, Copy)]
struct Anchor {
    here: Instant,
    there: Timestamp,
}

impl ServerClock {
    /// Until it has been set, the time of this process.
    pub(crate) fn new() -> Self {
        Self { anchor: Mutex::new(Anchor { here: Instant::now(), there: Timestamp::now() }) }
    }

    /// The server said it was `there` at some moment between `asked` and now.
    pub(crate) fn set(&self, asked: Instant, there: Timestamp) {
        let here = asked + asked.elapsed() / 2;
        *self.lock() = Anchor { here, there };
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Anchor> {
        self.anchor.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        let Anchor { here, there } = *self.lock();
        // Rounded down, as the server's own time is.
        Timestamp(there.0.saturating_add(i64::try_from(here.elapsed().as_millis()).unwrap_or(i64::MAX)))
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
