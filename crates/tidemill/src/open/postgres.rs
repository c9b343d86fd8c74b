//! Opens a PostgreSQL store.

use std::sync::Arc;

use tidemill_core::baseline::Baseline;
use tidemill_core::wake::{PollInterval, Transport};
use tidemill_core::{Error, Store};
use tidemill_postgres::{PostgresOptions, PostgresStore};

use super::{OpenStore, StoreFuture};

impl OpenStore for PostgresOptions {
    fn open(&self, transport: Option<Arc<dyn Transport>>) -> StoreFuture<'_, Arc<dyn Store>> {
        let options = Self { transport, ..self.clone() };
        Box::pin(async move { Ok(Arc::new(PostgresStore::connect(options).await?) as _) })
    }

    fn baselines(&self) -> StoreFuture<'_, Vec<Box<dyn Baseline>>> {
        Box::pin(tidemill_postgres::baselines(self.clone()))
    }

    fn set_poll_interval(&mut self, interval: PollInterval) -> Result<(), Error> {
        self.poll_interval = interval;
        Ok(())
    }
}
