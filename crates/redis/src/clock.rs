//! The server's time, as well as it is known here: this process's clock plus what the two differed by.

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
    /// Takes note of what the server's clock says now.
    pub(crate) fn set(&self, server: Timestamp) {
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
