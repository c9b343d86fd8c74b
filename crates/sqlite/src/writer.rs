//! The one thread that writes. It takes everything that is waiting, runs it in one transaction and answers
//! when it has committed: many callers, one sync to disk. In between it looks whether another process wrote.

use std::slice;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tidemill_core::{Clock, Error};

use crate::batch::{Failed, Setting};
use crate::call::{Call, Runs};
use crate::connection::{self, patiently};
use crate::error::{Failure, classify};
use crate::line::{Line, Message};
use crate::options::{Location, Options, Synchronous};
use crate::reserve::Reserve;
use crate::wake::{Announcements, Announcer};

/// How many rows one transaction gathers: enough that the sync to disk no longer matters, few enough that
/// the first of the callers does not wait long for the last.
const GATHER: usize = 4_096;

/// How often to look whether another process wrote, while someone here wants to know: half of the 100 ms
/// within which a job from another process has to start.
const LOOK: Duration = Duration::from_millis(50);

/// Opens the database on a thread of its own.
pub(crate) async fn start(
    options: Options,
    clock: Arc<dyn Clock>,
    announcer: Announcer,
) -> Result<Line, Error> {
    let open = move || Writer::open(&options, clock, announcer);
    Line::start("tidemill-writer", open, Writer::run).await
}

struct Writer {
    connection: Connection,
    clock: Arc<dyn Clock>,
    announcer: Announcer,
    /// What is beside a file, where other processes can write too; none in memory.
    reserve: Option<Reserve>,
    /// When commits of what has to last count as done.
    wanted: Synchronous,
    /// When the next commit would.
    level: Synchronous,
    /// SQLite's counter of other connections' commits, when last looked at.
    seen: i64,
    looked: Instant,
}

impl Writer {
    fn open(options: &Options, clock: Arc<dyn Clock>, announcer: Announcer) -> Result<Self, Error> {
        let connection = connection::open(options)?;
        let mut reserve = match &options.path {
            Location::File(path) => Some(Reserve::of(path)),
            Location::Memory => None,
        };
        // A disk without this much room is told to whoever adds a job.
        reserve.as_mut().map(Reserve::hold);
        let seen = data_version(&connection).map_err(|error| classify(&error))?;
        let (wanted, looked) = (options.synchronous, Instant::now());
        Ok(Self { connection, clock, announcer, reserve, wanted, level: wanted, seen, looked })
    }

    /// Works until nobody can send any more.
    fn run(mut self, calls: &Receiver<Message>) {
        while let Some(first) = self.next(calls) {
            let batch = gather(first, calls);
            self.commit(batch);
            if self.looked.elapsed() >= LOOK {
                self.look();
            }
        }
    }

    /// Waits for a call, with an eye on other processes while anyone listens.
    fn next(&mut self, calls: &Receiver<Message>) -> Option<Box<dyn Call>> {
        loop {
            let message = if self.reserve.is_some() && self.announcer.is_heard() {
                calls.recv_timeout(LOOK.saturating_sub(self.looked.elapsed()))
            } else {
                calls.recv().map_err(RecvTimeoutError::from)
            };
            match message {
                Ok(Message::Call(call)) => return Some(call),
                Ok(Message::Listen) | Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Tells everyone to look at everything if another process has written.
    fn look(&mut self) {
        self.looked = Instant::now();
        if self.reserve.is_none() {
            return;
        }
        // A failure here will come up in the next call, whose caller can be told.
        if let Ok(version) = data_version(&self.connection)
            && version != self.seen
        {
            self.seen = version;
            self.announcer.stir();
        }
    }

    /// Runs the batch in one transaction. If that fails, nothing of it has happened, and each call is run on its
    /// own, so that one that cannot succeed harms no other.
    fn commit(&mut self, batch: Vec<Box<dyn Call>>) {
        let mut batch = self.refuse_growth(batch);
        if batch.is_empty() {
            return;
        }
        match self.transact(&mut batch) {
            Ok(failed) => self.answer(batch, failed),
            Err(Stage::Begin(error)) => {
                batch.into_iter().for_each(|call| call.answer(Err(classify(&error))));
            }
            Err(Stage::Work(failure)) => match <[_; 1]>::try_from(batch) {
                Ok([call]) => self.last_resort(call, failure),
                Err(batch) => self.run_alone(batch, failure),
            },
        }
    }

    fn answer(&mut self, batch: Vec<Box<dyn Call>>, failed: Vec<Failed>) {
        let mut failed = failed.into_iter().peekable();
        for (index, call) in batch.into_iter().enumerate() {
            match failed.next_if(|(place, _)| *place == index) {
                Some((_, failure)) => self.last_resort(call, failure),
                None => call.answer(Ok(())),
            }
        }
    }

    fn run_alone(&mut self, batch: Vec<Box<dyn Call>>, failure: Failure) {
        let why = Error::from(failure);
        for call in batch {
            match call.runs() {
                Runs::Any | Runs::Once => self.commit(vec![call]),
                Runs::Spent => {
                    let message = format!("what it was to be committed with failed: {why}");
                    call.answer(Err(Error::Unavailable { message, source: None }));
                }
            }
        }
    }

    /// Sends away what would make the database larger while there is no reserve.
    fn refuse_growth(&mut self, batch: Vec<Box<dyn Call>>) -> Vec<Box<dyn Call>> {
        let grows = batch.iter().any(|call| call.cost().is_growth());
        let refused = grows && self.reserve.as_mut().is_some_and(|reserve| !reserve.hold());
        if !refused {
            return batch;
        }
        let (growing, rest): (Vec<_>, _) = batch.into_iter().partition(|call| call.cost().is_growth());
        let why = "the disk is full; what room is left is for jobs that run to be settled";
        growing.into_iter().for_each(|call| call.answer(Err(Error::Full(why.into()))));
        rest
    }

    /// A call that makes nothing larger but found no room on the disk is given the reserve. Copying the log
    /// into the database first makes the log's own room usable again, so the reserve is needed only once.
    fn last_resort(&mut self, mut call: Box<dyn Call>, failure: Failure) {
        let may_use = !call.cost().is_growth() && call.runs() == Runs::Any && failure.is_disk_full();
        let Some(reserve) = self.reserve.as_mut().filter(|_| may_use) else {
            return call.answer(Err(failure.into()));
        };
        // Another process may have given it up already: its room is as good.
        reserve.release();
        // If even this fails there is still the room the reserve left.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(restart)", [], |_| Ok(()));
        let outcome = self.transact(slice::from_mut(&mut call)).map_err(|stage| match stage {
            Stage::Begin(error) => classify(&error),
            Stage::Work(failure) => failure.into(),
        });
        call.answer(outcome.map(drop));
    }

    fn transact(&mut self, batch: &mut [Box<dyn Call>]) -> Result<Vec<Failed>, Stage> {
        self.synchronize(batch).map_err(Stage::Begin)?;
        // Immediate: a transaction that starts by reading can be refused the lock with no way to wait for it.
        let begin = || self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]);
        patiently(begin).map_err(Stage::Begin)?;
        let (connection, now) = (&self.connection, self.clock.now());
        let mut announcements = Announcements::default();
        match (Setting { connection, now, announcements: &mut announcements }).commit(batch) {
            Ok(failed) => {
                self.announcer.announce(announcements);
                Ok(failed)
            }
            Err(failure) => {
                self.roll_back();
                Err(Stage::Work(failure))
            }
        }
    }

    /// A batch of which nothing has to last does not wait for the disk. It gets there with the next one that does.
    fn synchronize(&mut self, batch: &[Box<dyn Call>]) -> rusqlite::Result<()> {
        let lasts = batch.iter().any(|call| call.cost().lasts());
        let level = if lasts { self.wanted } else { Synchronous::Normal };
        if level != self.level {
            // One that fails may have had its effect: the next one that has to last says it again.
            self.level = Synchronous::Normal;
            connection::synchronize(&self.connection, level)?;
            self.level = level;
        }
        Ok(())
    }

    /// Some errors have rolled back already; the first error is the one to tell.
    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

/// Where a transaction failed.
enum Stage {
    /// Before anything ran.
    Begin(rusqlite::Error),
    /// In a call, or when it was to commit.
    Work(Failure),
}

/// Adds to `first` what is already waiting.
fn gather(first: Box<dyn Call>, calls: &Receiver<Message>) -> Vec<Box<dyn Call>> {
    let mut rows = first.cost().rows();
    let mut batch = vec![first];
    while rows < GATHER {
        match calls.try_recv() {
            Ok(Message::Call(call)) => {
                rows += call.cost().rows();
                batch.push(call);
            }
            // Whoever has just begun to listen is looked out for after this batch.
            Ok(Message::Listen) => {}
            Err(_) => break,
        }
    }
    batch
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use crate::call::{Cost, Tx};
    use crate::{Options, SqliteStore};

    #[tokio::test]
    async fn only_what_has_to_last_waits_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let store = SqliteStore::open(Options::file(&path)).await.unwrap();
        let level = async |cost| {
            let read = |tx: &mut Tx<'_>| {
                Ok(tx.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))?)
            };
            store.write(cost, read).await.unwrap()
        };
        let lasting = Cost::change(1);
        for (cost, wanted) in [(lasting, 2), (lasting.fleeting(), 1), (lasting.fleeting(), 1), (lasting, 2)] {
            assert_eq!(level(cost).await, wanted, "{cost:?}");
        }
    }
}
