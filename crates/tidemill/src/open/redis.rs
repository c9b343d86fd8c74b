//! Opens a Redis store.

use std::sync::Arc;

use tidemill_core::baseline::Baseline;
use tidemill_core::wake::Transport;
use tidemill_core::{Error, Namespace, QueueName, Store};
use tidemill_redis::{RedisOptions, RedisStore};

use super::{OpenStore, StoreFuture};
use crate::wake::WakeTransport;

impl OpenStore for RedisOptions {
    fn open(&self, _: Option<Arc<dyn Transport>>) -> StoreFuture<'_, Arc<dyn Store>> {
        let options = self.clone();
        Box::pin(async move { Ok(Arc::new(RedisStore::connect(options).await?) as _) })
    }

    fn baselines(&self) -> StoreFuture<'_, Vec<Box<dyn Baseline>>> {
        Box::pin(tidemill_redis::baselines(self.clone()))
    }

    fn check_wake(&self, _wake: &WakeTransport) -> Result<(), Error> {
        Err(Error::Invalid("a Redis store wakes its workers by itself: remove the wake-up transport".into()))
    }

    fn has_namespace(&self) -> bool {
        true
    }

    fn set_namespace(&mut self, namespace: Namespace) -> Option<Namespace> {
        *self = self.clone().namespace(namespace);
        None
    }

    fn set_group(&mut self, queue: Option<QueueName>, group: &str) -> Result<(), Error> {
        *self = match queue {
            Some(queue) => self.clone().group(queue, group),
            None => self.clone().default_group(group),
        };
        Ok(())
    }
}
