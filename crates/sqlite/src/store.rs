//! The store: two database threads and the verbs that are sent to them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use tidemill_core::store::Durability;
use tidemill_core::wake::{Bus, PollInterval, Transport};
use tidemill_core::{Clock, Error, Store};
use tokio::task::JoinSet;

use crate::clock::MachineClock;
use crate::connection::{Cost, DatabaseThread, ThreadMessage, Tx, reader, writer};
use crate::error::RequestError;
use crate::options::{Location, SqliteOptions};
use crate::wake::PostCommitWakes;

/// A store in SQLite. It is cheap to clone. The file is closed when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    writer: DatabaseThread,
    /// None in memory, where there is only one connection.
    reader: Option<DatabaseThread>,
    bus: Arc<Bus>,
    transport: Option<Arc<dyn Transport>>,
    clock: Arc<dyn Clock>,
    durability: Durability,
    commands: AtomicU64,
    /// The canonical path of the file. None in memory.
    file: Option<PathBuf>,
    post_commit_wakes: Arc<PostCommitWakes>,
    /// Receive wake-ups from other processes, until the store is dropped.
    tasks: OnceLock<JoinSet<()>>,
}

/// Makes the writer check for writes of other processes when the first listener appears.
async fn report_listeners(bus: Arc<Bus>, shared: Weak<Shared>) {
    let mut interest = bus.interest();
    loop {
        if interest.in_events() {
            let Some(shared) = shared.upgrade() else { return };
            shared.writer.send(ThreadMessage::Listen);
        }
        interest.changed().await;
    }
}

impl SqliteStore {
    /// Opens the database, creates it if it does not exist, and migrates its schema.
    pub async fn open(options: SqliteOptions) -> Result<Self, Error> {
        let durability = options.durability();
        let path = options.path.clone();
        let clock = options.clock.clone().unwrap_or_else(|| Arc::new(MachineClock));
        let transport = options.transport.clone();
        // Every change is published, so no waiter has to poll in between.
        let bus = Arc::new(match transport {
            Some(_) => Bus::with_transport(PollInterval::NEVER, clock.clone()),
            None => Bus::new(PollInterval::NEVER),
        });
        let writer = writer::start(options, clock.clone(), bus.clone()).await?;
        let (reader, file) = match path {
            Location::File(path) => {
                let file = path.canonicalize().unwrap_or_else(|_| path.clone());
                (Some(reader::start(path, clock.clone()).await?), Some(file))
            }
            Location::Memory => (None, None),
        };
        let shared = Arc::new(Shared {
            writer,
            reader,
            bus: bus.clone(),
            transport: transport.clone(),
            clock,
            durability,
            commands: AtomicU64::new(0),
            file,
            post_commit_wakes: Arc::default(),
            tasks: OnceLock::new(),
        });
        let mut tasks = JoinSet::new();
        if shared.file.is_some() {
            tasks.spawn(report_listeners(bus.clone(), Arc::downgrade(&shared)));
        }
        if let Some(transport) = transport {
            tasks.spawn(async move { transport.run(bus).await });
        }
        let _ = shared.tasks.set(tasks);
        Ok(Self { shared })
    }

    /// Changes a setting of the writer's connection. For tests that need a small or a read-only
    /// disk.
    #[doc(hidden)]
    pub async fn set_pragma(&self, pragma: &'static str) -> Result<(), Error> {
        self.write(Cost::change(1), move |tx| Ok(tx.connection.execute_batch(&format!("PRAGMA {pragma}"))?))
            .await
    }

    /// Runs `work` on the writer, in a transaction with other queued requests. It may run twice.
    pub(crate) async fn write<T, F>(&self, cost: Cost, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T, RequestError> + Send + 'static,
    {
        self.shared.commands.fetch_add(1, Ordering::Relaxed);
        self.shared.writer.call(cost, work).await
    }

    /// Runs `work` like [`write`](Self::write), but once at most. If it fails, it must have left no
    /// changes.
    pub(crate) async fn write_once<T, F>(&self, cost: Cost, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, RequestError> + Send + 'static,
    {
        self.shared.commands.fetch_add(1, Ordering::Relaxed);
        self.shared.writer.call_once(cost, work).await
    }

    /// The file of this store. None if it is in memory.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.shared.file.as_deref()
    }

    pub(crate) fn post_commit_wakes(&self) -> &Arc<PostCommitWakes> {
        &self.shared.post_commit_wakes
    }

    /// Runs `work` on the reader's connection.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T, RequestError> + Send + 'static,
    {
        self.shared.commands.fetch_add(1, Ordering::Relaxed);
        self.shared.reader.as_ref().unwrap_or(&self.shared.writer).call(Cost::change(1), work).await
    }

    /// The transport of wake-ups, if there is one.
    pub(crate) fn transport(&self) -> Option<&Arc<dyn Transport>> {
        self.shared.transport.as_ref()
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn bus(&self) -> &Arc<Bus> {
        &self.shared.bus
    }

    fn clock(&self) -> &dyn Clock {
        &*self.shared.clock
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn durability(&self) -> Durability {
        self.shared.durability
    }

    /// Counts requests to the database threads. Polling `data_version` does not count.
    fn commands(&self) -> u64 {
        self.shared.commands.load(Ordering::Relaxed)
    }
}
