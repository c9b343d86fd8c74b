//! The store: opening it, the state that the verbs share, and the verbs of the contract.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use async_trait::async_trait;
use tidemill_core::store::Durability;
use tidemill_core::wake::{Bus, Transport};
use tidemill_core::{Clock, Error, Store};
use tokio::task::JoinSet;

use crate::connection::{Connector, Pool};
use crate::jobs::{GroupCommit, LeaseLowWaterMark, LowWaterMarks, PartialSettles, QueueIds};
use crate::transaction::FunctionCalls;
use crate::wake::{CommitNotify, NotifyTransport, channel};
use crate::{PostgresOptions, migrate};

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    pub(crate) inner: Arc<Inner>,
    pub(crate) group_commit: GroupCommit,
    durability: Durability,
    /// The group commit task and the transport task. They end with the store.
    _tasks: JoinSet<()>,
}

/// The state that the verbs share. They are implemented in the modules.
pub(crate) struct Inner {
    pub(crate) pool: Arc<Pool>,
    pub(crate) bus: Arc<Bus>,
    pub(crate) transport: Arc<dyn Transport>,
    /// Notifies of run ends inside a commit. None if another transport carries the wake-ups.
    pub(crate) commit_notify: Option<CommitNotify>,
    pub(crate) queue_ids: QueueIds,
    pub(crate) low_water_marks: LowWaterMarks,
    pub(crate) lease_low_water_mark: LeaseLowWaterMark,
    /// The time up to which records have been pruned, while there are more.
    pub(crate) pruned_to: AtomicI64,
    /// The same for receipts.
    pub(crate) receipts_pruned_to: AtomicI64,
    pub(crate) calls: FunctionCalls,
    pub(crate) partial_settles: PartialSettles,
}

impl PostgresStore {
    /// Connects and migrates the schema. If the schema already has this build's version, no right
    /// to create objects is needed.
    pub async fn connect(options: PostgresOptions) -> Result<Self, Error> {
        let pool = Arc::new(Pool::new(&options)?);
        let commit_notify = options.transport.is_none().then(|| CommitNotify::new(channel(&pool)));
        let listen = options.for_listening().map(|options| Connector::new(&options)).transpose()?;
        let transport: Arc<dyn Transport> =
            options.transport.unwrap_or_else(|| Arc::new(NotifyTransport::new(pool.clone(), listen)));
        let bus = Arc::new(Bus::with_transport(options.poll_interval, pool.clock.clone()));
        let inner = Arc::new(Inner {
            pool,
            bus: bus.clone(),
            transport: transport.clone(),
            commit_notify,
            queue_ids: QueueIds::default(),
            low_water_marks: LowWaterMarks::default(),
            lease_low_water_mark: LeaseLowWaterMark::default(),
            pruned_to: AtomicI64::new(0),
            receipts_pruned_to: AtomicI64::new(0),
            calls: FunctionCalls::new(&options.schema),
            partial_settles: PartialSettles::default(),
        });
        migrate::migrate(&inner.pool).await?;
        let durability = inner.find_durability().await?;
        let mut tasks = JoinSet::new();
        let (group_commit, work) = GroupCommit::new(inner.clone());
        tasks.spawn(work);
        tasks.spawn(async move { transport.run(bus).await });
        Ok(Self { inner, group_commit, durability, _tasks: tasks })
    }
}

impl PostgresStore {
    /// Passes a result on. After an unknown result the change may have happened without a wake-up,
    /// so all waiters are woken.
    pub(crate) fn announced<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        self.inner.announce_unknown(&result);
        result
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connector = &self.inner.pool.connector;
        f.debug_struct("PostgresStore")
            .field("server", &connector.target.address())
            .field("schema", &connector.schema)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn bus(&self) -> &Arc<Bus> {
        &self.inner.bus
    }

    fn clock(&self) -> &dyn Clock {
        &*self.inner.pool.clock
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn commands(&self) -> u64 {
        self.inner.pool.sent()
    }
}
