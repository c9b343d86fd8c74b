//! Opens a SQLite store.

use std::sync::Arc;

use tidemill_core::baseline::Baseline;
use tidemill_core::wake::Transport;
use tidemill_core::{Error, Store};
use tidemill_sqlite::{SqliteOptions, SqliteStore};

use super::{OpenStore, StoreFuture};
use crate::wake::{WakeMethod, WakeTransport};

impl OpenStore for SqliteOptions {
    fn open(&self, transport: Option<Arc<dyn Transport>>) -> StoreFuture<'_, Arc<dyn Store>> {
        let options = Self { transport, ..self.clone() };
        Box::pin(async move { Ok(Arc::new(SqliteStore::open(options).await?) as _) })
    }

    fn baselines(&self) -> StoreFuture<'_, Vec<Box<dyn Baseline>>> {
        Box::pin(tidemill_sqlite::baselines(self.clone()))
    }

    fn check_wake(&self, wake: &WakeTransport) -> Result<(), Error> {
        match wake.0 {
            WakeMethod::ListenNotify => Err(Error::Invalid(
                "SQLite has no LISTEN: remove it, because a SQLite store notices writes of other processes, \
                 or use redis://…"
                    .into(),
            )),
            _ => Ok(()),
        }
    }
}
