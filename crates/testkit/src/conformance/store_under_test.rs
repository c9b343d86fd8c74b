//! A store under test, with what keeps it alive.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tidemill_core::name::{Guarantee, Queue, QueueName};
use tidemill_core::store::Store;

use super::scene::{Scene, Yard};

type Reopen = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync>;
type Leftovers = Box<dyn Fn() -> BoxFuture<'static, Vec<String>> + Send + Sync>;

/// A store whose state nobody else uses.
pub struct Subject {
    /// The store.
    pub store: Arc<dyn Store>,
    reopen: Option<Reopen>,
    leftovers: Option<Leftovers>,
    sharded: bool,
    // Last, so that it outlives every connection to what it guards.
    _guard: Box<dyn Any + Send>,
}

impl Subject {
    /// A store, and what has to live as long as it: a directory, a server.
    pub fn new(store: Arc<dyn Store>, guard: impl Any + Send) -> Self {
        Self { store, reopen: None, leftovers: None, sharded: false, _guard: Box::new(guard) }
    }

    /// Says how to open a second, independent connection to the same state, as another process would.
    pub fn reopen<F>(mut self, open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Arc<dyn Store>> + Send + 'static,
    {
        self.reopen = Some(Box::new(move || Box::pin(open())));
        self
    }

    /// Says how to list what is left in the store of jobs, leases and workers: keys, rows. Schema and the
    /// registry of queues do not count.
    pub fn leftovers<F>(mut self, list: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Vec<String>> + Send + 'static,
    {
        self.leftovers = Some(Box::new(move || Box::pin(list())));
        self
    }

    /// Says that the store has more than one shard, and so no order between jobs of different ones.
    pub fn sharded(mut self) -> Self {
        self.sharded = true;
        self
    }

    /// Whether the store has more than one shard.
    pub fn is_sharded(&self) -> bool {
        self.sharded
    }

    /// Another connection to the same state; the same one, if the store has but one.
    pub async fn other(&self) -> Arc<dyn Store> {
        match &self.reopen {
            Some(open) => open().await,
            None => self.store.clone(),
        }
    }

    /// What is left in the store, as far as it can be told.
    pub async fn left_behind(&self) -> Vec<String> {
        match &self.leftovers {
            Some(list) => list().await,
            None => Vec::new(),
        }
    }

    /// A stage on an at-least-once queue.
    pub fn scene(&self) -> Scene {
        self.scene_on("jobs", Guarantee::AtLeastOnce)
    }

    /// A stage for the fleet.
    pub fn yard(&self) -> Yard {
        Yard::new(self.store.clone())
    }

    /// A stage on an at-most-once queue.
    pub fn scene_at_most_once(&self) -> Scene {
        self.scene_on("jobs", Guarantee::AtMostOnce)
    }

    /// A stage for each delivery guarantee, for what holds on both.
    pub fn scenes(&self) -> [Scene; 2] {
        [self.scene(), self.scene_at_most_once()]
    }

    /// A stage on a queue of this name.
    pub fn scene_on(&self, name: &str, delivery: Guarantee) -> Scene {
        let name = QueueName::new(name).expect("a queue's name");
        Scene::new(self.store.clone(), Queue { name, guarantee: delivery })
    }
}
