//! The writer thread. It runs all queued requests in one transaction and replies after the commit,
//! so that many callers share one sync to disk. In between it polls for writes of other processes.

use std::slice;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tidemill_core::wake::{Bus, Wake};
use tidemill_core::{Clock, Error};

use super::batch::{BatchTransaction, FailedRequest};
use super::disk_reserve::DiskReserve;
use super::open::{self, retry_while_busy};
use super::request::{DatabaseRequest, RunsLeft};
use super::thread::{DatabaseThread, ThreadMessage};
use crate::error::{RequestError, classify};
use crate::options::{Location, SqliteOptions, Synchronous};
use crate::wake::TransactionWakes;

/// How many rows one transaction gathers. At this number the sync to disk is a small part of the
/// cost, and the first caller does not wait long for the last.
const MAX_BATCH_ROWS: usize = 4_096;

/// How often to check whether another process wrote, while there are listeners. It is half of the
/// 100 ms within which a job from another process has to start.
const FOREIGN_WRITE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Opens the database on a thread of its own.
pub(crate) async fn start(
    options: SqliteOptions,
    clock: Arc<dyn Clock>,
    bus: Arc<Bus>,
) -> Result<DatabaseThread, Error> {
    let open = move || Writer::open(&options, clock, bus);
    DatabaseThread::start("tidemill-writer", open, Writer::run).await
}

struct Writer {
    connection: Connection,
    clock: Arc<dyn Clock>,
    bus: Arc<Bus>,
    /// The disk reserve beside the file. None in memory, where no other process can write either.
    reserve: Option<DiskReserve>,
    /// The configured level, for commits that must be durable.
    configured_sync: Synchronous,
    /// The level of the connection, for the next commit.
    current_sync: Synchronous,
    /// SQLite's counter of other connections' commits, at the last check.
    data_version: i64,
    last_check: Instant,
}

impl Writer {
    fn open(options: &SqliteOptions, clock: Arc<dyn Clock>, bus: Arc<Bus>) -> Result<Self, Error> {
        let connection = open::open(options)?;
        let mut reserve = match &options.path {
            Location::File(path) => Some(DiskReserve::for_database(path)),
            Location::Memory => None,
        };
        // A failure is reported to the next caller that adds rows.
        reserve.as_mut().map(DiskReserve::ensure);
        let data_version = read_data_version(&connection).map_err(|error| classify(&error))?;
        let (configured_sync, last_check) = (options.synchronous, Instant::now());
        Ok(Self {
            connection,
            clock,
            bus,
            reserve,
            configured_sync,
            current_sync: configured_sync,
            data_version,
            last_check,
        })
    }

    /// Serves requests until all senders are gone.
    fn run(mut self, requests: &Receiver<ThreadMessage>) {
        while let Some(first) = self.next(requests) {
            let batch = collect_batch(first, requests);
            self.commit(batch);
            if self.last_check.elapsed() >= FOREIGN_WRITE_POLL_INTERVAL {
                self.check_foreign_writes();
            }
        }
    }

    /// Waits for a request, and checks for writes of other processes while there are listeners.
    fn next(&mut self, requests: &Receiver<ThreadMessage>) -> Option<Box<dyn DatabaseRequest>> {
        loop {
            let message = if self.reserve.is_some() && self.bus.has_listeners() {
                requests.recv_timeout(FOREIGN_WRITE_POLL_INTERVAL.saturating_sub(self.last_check.elapsed()))
            } else {
                requests.recv().map_err(RecvTimeoutError::from)
            };
            match message {
                Ok(ThreadMessage::Request(request)) => return Some(request),
                Ok(ThreadMessage::Listen) | Err(RecvTimeoutError::Timeout) => self.check_foreign_writes(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Wakes all waiters of this process if another process has written.
    fn check_foreign_writes(&mut self) {
        self.last_check = Instant::now();
        if self.reserve.is_none() {
            return;
        }
        // An error here also occurs in the next request, whose caller receives it.
        if let Ok(version) = read_data_version(&self.connection)
            && version != self.data_version
        {
            self.data_version = version;
            self.bus.dispatch(Wake::Everything);
        }
    }

    /// Runs the batch in one transaction. If that fails, all of it is rolled back and each request
    /// runs on its own, so that one that cannot succeed does not fail the others.
    fn commit(&mut self, batch: Vec<Box<dyn DatabaseRequest>>) {
        let mut batch = self.reject_growth(batch);
        if batch.is_empty() {
            return;
        }
        match self.transact(&mut batch) {
            Ok(failed) => self.reply_all(batch, failed),
            Err(TransactionFailure::Begin(error)) => {
                batch.into_iter().for_each(|request| request.reply(Err(classify(&error))));
            }
            Err(TransactionFailure::Work(failure)) => match <[_; 1]>::try_from(batch) {
                Ok([request]) => self.retry_with_reserve(request, failure),
                Err(batch) => self.run_individually(batch, failure),
            },
        }
    }

    fn reply_all(&mut self, batch: Vec<Box<dyn DatabaseRequest>>, failed: Vec<FailedRequest>) {
        let mut failed = failed.into_iter().peekable();
        for (index, request) in batch.into_iter().enumerate() {
            match failed.next_if(|(failed_index, _)| *failed_index == index) {
                Some((_, failure)) => self.retry_with_reserve(request, failure),
                None => request.reply(Ok(())),
            }
        }
    }

    fn run_individually(&mut self, batch: Vec<Box<dyn DatabaseRequest>>, failure: RequestError) {
        let why = Error::from(failure);
        for request in batch {
            match request.runs_left() {
                RunsLeft::Any | RunsLeft::One => self.commit(vec![request]),
                RunsLeft::Zero => {
                    let message = format!("the batch that it was part of failed: {why}");
                    request.reply(Err(Error::Unavailable { message, source: None }));
                }
            }
        }
    }

    /// Rejects requests that would make the database larger while there is no disk reserve.
    fn reject_growth(&mut self, batch: Vec<Box<dyn DatabaseRequest>>) -> Vec<Box<dyn DatabaseRequest>> {
        let grows = batch.iter().any(|request| request.cost().is_growth());
        let rejected = grows && self.reserve.as_mut().is_some_and(|reserve| !reserve.ensure());
        if !rejected {
            return batch;
        }
        let (growing, rest): (Vec<_>, _) = batch.into_iter().partition(|request| request.cost().is_growth());
        let why = "the disk is full; the remaining space is reserved for settling running jobs";
        growing.into_iter().for_each(|request| request.reply(Err(Error::Full(why.into()))));
        rest
    }

    /// Gives up the disk reserve for a request that makes nothing larger but found the disk full.
    /// The checkpoint before it makes the log's own space usable again, so the reserve is needed
    /// only once.
    fn retry_with_reserve(&mut self, mut request: Box<dyn DatabaseRequest>, failure: RequestError) {
        let may_use =
            !request.cost().is_growth() && request.runs_left() == RunsLeft::Any && failure.is_disk_full();
        let Some(reserve) = self.reserve.as_mut().filter(|_| may_use) else {
            return request.reply(Err(failure.into()));
        };
        // Another process may have released it already: that space serves as well.
        reserve.release();
        // If even this fails, there is still the space of the reserve.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(restart)", [], |_| Ok(()));
        let outcome = self.transact(slice::from_mut(&mut request)).map_err(|failure| match failure {
            TransactionFailure::Begin(error) => classify(&error),
            TransactionFailure::Work(failure) => failure.into(),
        });
        request.reply(outcome.map(drop));
    }

    fn transact(
        &mut self,
        batch: &mut [Box<dyn DatabaseRequest>],
    ) -> Result<Vec<FailedRequest>, TransactionFailure> {
        self.set_synchronous(batch).map_err(TransactionFailure::Begin)?;
        // Immediate: a transaction that starts with a read can be refused the write lock without a
        // way to wait for it.
        let begin = || self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]);
        retry_while_busy(begin).map_err(TransactionFailure::Begin)?;
        let (connection, now) = (&self.connection, self.clock.now());
        let mut wakes = TransactionWakes::default();
        match (BatchTransaction { connection, now, wakes: &mut wakes }).commit(batch) {
            Ok(failed) => {
                wakes.into_iter().for_each(|wake| self.bus.publish(wake));
                Ok(failed)
            }
            Err(failure) => {
                self.roll_back();
                Err(TransactionFailure::Work(failure))
            }
        }
    }

    /// Sets the sync level for a batch. If no request in it must be durable, the commit does not
    /// wait for the disk; the next durable commit syncs it too.
    fn set_synchronous(&mut self, batch: &[Box<dyn DatabaseRequest>]) -> rusqlite::Result<()> {
        let durable = batch.iter().any(|request| request.cost().is_durable());
        let level = if durable { self.configured_sync } else { Synchronous::Normal };
        if level != self.current_sync {
            // A failed PRAGMA may have had its effect. Assuming the lower level makes the next
            // durable batch set it again.
            self.current_sync = Synchronous::Normal;
            open::set_synchronous(&self.connection, level)?;
            self.current_sync = level;
        }
        Ok(())
    }

    /// Rolls back. Some errors have rolled back already, and the first error is the one to report.
    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

/// Where a transaction failed.
enum TransactionFailure {
    /// Before anything ran.
    Begin(rusqlite::Error),
    /// In a request, or at the commit.
    Work(RequestError),
}

/// Adds the requests that are already queued to `first`.
fn collect_batch(
    first: Box<dyn DatabaseRequest>,
    requests: &Receiver<ThreadMessage>,
) -> Vec<Box<dyn DatabaseRequest>> {
    let mut rows = first.cost().rows();
    let mut batch = vec![first];
    while rows < MAX_BATCH_ROWS {
        match requests.try_recv() {
            Ok(ThreadMessage::Request(request)) => {
                rows += request.cost().rows();
                batch.push(request);
            }
            // The loop in `next` polls for the new listener after this batch.
            Ok(ThreadMessage::Listen) => {}
            Err(_) => break,
        }
    }
    batch
}

fn read_data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use crate::connection::{Cost, Tx};
    use crate::{SqliteOptions, SqliteStore};

    #[tokio::test]
    async fn only_durable_requests_wait_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let store = SqliteStore::open(SqliteOptions::file(&path)).await.unwrap();
        let level = async |cost| {
            let read = |tx: &mut Tx<'_>| {
                Ok(tx.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))?)
            };
            store.write(cost, read).await.unwrap()
        };
        let durable = Cost::change(1);
        for (cost, wanted) in
            [(durable, 2), (durable.without_sync(), 1), (durable.without_sync(), 1), (durable, 2)]
        {
            assert_eq!(level(cost).await, wanted, "{cost:?}");
        }
    }
}
