//! A store under test and the resources that it needs.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tidemill_core::name::{Guarantee, Queue, QueueName};
use tidemill_core::store::Store;

use super::harness::{FleetHarness, QueueHarness};

type OpenStore = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync>;
type ListLeftovers = Box<dyn Fn() -> BoxFuture<'static, Vec<String>> + Send + Sync>;

/// A store with state of its own.
pub struct StoreUnderTest {
    /// The store.
    pub store: Arc<dyn Store>,
    reopen: Option<OpenStore>,
    leftovers: Option<ListLeftovers>,
    sharded: bool,
    // Last, so that it outlives every connection to the guarded resource.
    _guard: Box<dyn Any + Send>,
}

impl StoreUnderTest {
    /// A store, and a resource that must live as long: a directory, a server.
    pub fn new(store: Arc<dyn Store>, guard: impl Any + Send) -> Self {
        Self { store, reopen: None, leftovers: None, sharded: false, _guard: Box::new(guard) }
    }

    /// Sets how to open a second, independent connection to the same state, as another process
    /// would.
    pub fn reopen<F>(mut self, open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Arc<dyn Store>> + Send + 'static,
    {
        self.reopen = Some(Box::new(move || Box::pin(open())));
        self
    }

    /// Sets how to list keys or rows of jobs, leases and workers that remain in the store. The
    /// schema and the registry of queues do not count.
    pub fn leftovers<F>(mut self, list: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Vec<String>> + Send + 'static,
    {
        self.leftovers = Some(Box::new(move || Box::pin(list())));
        self
    }

    /// Declares that the store has more than one shard, and so no order between jobs of different
    /// shards.
    pub fn sharded(mut self) -> Self {
        self.sharded = true;
        self
    }

    /// Whether the store has more than one shard.
    pub fn is_sharded(&self) -> bool {
        self.sharded
    }

    /// Another connection to the same state, or the same one if the store has only one.
    pub async fn other_connection(&self) -> Arc<dyn Store> {
        match &self.reopen {
            Some(open) => open().await,
            None => self.store.clone(),
        }
    }

    /// The remaining keys or rows, as far as they can be listed.
    pub async fn list_leftovers(&self) -> Vec<String> {
        match &self.leftovers {
            Some(list) => list().await,
            None => Vec::new(),
        }
    }

    /// A harness on an at-least-once queue.
    pub fn harness(&self) -> QueueHarness {
        self.harness_on("jobs", Guarantee::AtLeastOnce)
    }

    /// A harness for the fleet.
    pub fn fleet_harness(&self) -> FleetHarness {
        FleetHarness::new(self.store.clone())
    }

    /// A harness on an at-most-once queue.
    pub fn at_most_once_harness(&self) -> QueueHarness {
        self.harness_on("jobs", Guarantee::AtMostOnce)
    }

    /// A harness for each guarantee, for cases that hold on both.
    pub fn harnesses(&self) -> [QueueHarness; 2] {
        [self.harness(), self.at_most_once_harness()]
    }

    /// A harness on a queue of this name.
    pub fn harness_on(&self, name: &str, guarantee: Guarantee) -> QueueHarness {
        let name = QueueName::new(name).expect("a queue's name");
        QueueHarness::new(self.store.clone(), Queue { name, guarantee })
    }
}
