//! The server's time, estimated from this process's clock and the last known offset.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tidemill_core::{Clock, Timestamp};

#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    offset: AtomicI64,
}

impl ServerClock {
    /// Records the current time of the server.
    pub(crate) fn sync(&self, server: Timestamp) {
        self.offset.store(server.0 - Timestamp::now().0, Ordering::Relaxed);
    }
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        Timestamp(Timestamp::now().0 + self.offset.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
