//! The machine: takes events and gives commands. Everything about a run that needs its code, and nothing that needs
//! a store or a runtime.

mod advance;
mod close;
mod diagnose;
mod executor;
mod feed;
mod query;
mod replay;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill_core::workflow::{
    ActivityResult, Commit, Json, OpenChildren, Parent, PositionedEvent, RetryPolicy, RunEnd, RunId,
};
use tidemill_core::{Kind, Timestamp};

pub use diagnose::diagnose;

use crate::foreign::Lure;
use crate::halt::Halt;
use crate::program::Program;
use crate::state::Shared;
use executor::Executor;

/// A run in memory.
///
/// [`replay`](Self::replay) brings it to where its journal ends, [`advance`](Self::advance) carries it on with what
/// has come since. It may be kept between tasks, moved between threads, and dropped at any time: the journal has
/// everything. After a [`Halt`] it is of no use any more.
pub struct Machine {
    shared: Arc<Shared>,
    executor: Executor,
    /// Events that were not consumed yet.
    pending: VecDeque<PositionedEvent>,
    /// The position of the last entry that was replayed.
    read: u64,
    /// The position of the last event that was consumed.
    consumed: u64,
    /// Local activities that have ended, in the order in which they did.
    finished: VecDeque<Finished>,
    /// How long the journal may grow, if not as long as the run itself says.
    limit: Option<u64>,
    /// The first event has been consumed.
    started: bool,
    /// What its first event says beside what its code is given; most runs have nothing of that kind.
    origin: Option<Box<Origin>>,
    children: OpenChildren,
    /// Activities that were given up because of the time they took; whoever commits sees to it that they end.
    overdue: Vec<u64>,
    end: Option<RunEnd>,
    halted: Option<Halt>,
}

/// Where a run comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) parent: Option<Parent>,
    pub(crate) key: Option<String>,
    pub(crate) luck: Option<RunId>,
    pub(crate) limit: Option<u64>,
    pub(crate) keep_ms: Option<u64>,
}

struct Finished {
    seq: u64,
    result: ActivityResult,
    attempts: u32,
}

/// What came of carrying a run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advance {
    /// The code waits for events. This is to be committed.
    Commit(Commit),
    /// The code waits for local activities: run these, say how they ended with
    /// [`finish_local`](Machine::finish_local), and advance again. None are new if earlier ones are still missing.
    Local(Vec<LocalTask>),
}

/// A local activity that is to be run inside the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTask {
    /// Its number.
    pub seq: u64,
    /// What to run.
    pub name: Kind,
    /// With what.
    pub input: Json,
    /// How often it is tried.
    pub retry: RetryPolicy,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
}

/// Something a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// What it is: ``activity `charge` ``.
    pub what: String,
    /// The command that asked for it, if one did.
    pub seq: Option<u64>,
    /// Since when.
    #[serde(with = "milliseconds")]
    pub since: Timestamp,
    /// What holds it up, if that is known: a paused queue, or that no worker knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A time as it is in journals.
mod milliseconds {
    use serde::{Deserialize, Deserializer, Serializer};
    use tidemill_core::Timestamp;

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(time.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(from).map(Timestamp)
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("consumed", &self.consumed)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// A run that has read nothing of its journal yet.
    pub fn new(program: &Program, run: RunId) -> Self {
        Self {
            shared: Shared::new(program, run),
            executor: Executor::default(),
            pending: VecDeque::new(),
            read: 0,
            consumed: 0,
            finished: VecDeque::new(),
            limit: None,
            started: false,
            origin: None,
            children: OpenChildren::default(),
            overdue: Vec::new(),
            end: None,
            halted: None,
        }
    }

    /// Says that the first entry of the journal is the one after this position. Positions go on when a run continues
    /// as new.
    pub fn base(mut self, position: u64) -> Self {
        (self.read, self.consumed) = (position, position);
        self.shared.lock().base = position;
        self
    }

    /// Lets the journal grow to this many entries, whatever the run itself says. Its code is told the same as ever.
    pub fn limit(mut self, entries: u64) -> Self {
        self.limit = Some(entries);
        self
    }

    /// Lets the code hand on this many bytes of JSON at once; 1 MiB unless set.
    pub fn payload_limit(self, bytes: usize) -> Self {
        self.shared.lock().payload_limit = bytes;
        self
    }

    /// The position of the last event that was consumed: the cursor the next commit is compared with.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The code it runs.
    pub(crate) fn program(&self) -> Program {
        self.shared.lock().program.clone()
    }

    /// How often it has continued as new.
    pub(crate) fn continued(&self) -> u64 {
        self.shared.lock().continued
    }

    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }

    /// The children it has not heard the end of.
    pub fn children(&self) -> &OpenChildren {
        &self.children
    }

    /// The activities it has given up because they took too long from being scheduled to their end, since this was
    /// last asked. Their jobs are still there.
    pub fn take_overdue(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.overdue)
    }

    /// The children that have lost a `select!` since this was last asked.
    pub(crate) fn take_losers(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.shared.lock().losers)
    }

    /// How the run ended, if it did.
    pub fn end(&self) -> Option<&RunEnd> {
        self.end.as_ref()
    }

    /// What the run waits for, the oldest first.
    pub fn waits(&self) -> Vec<Waiting> {
        let state = self.shared.lock();
        let mut waits: Vec<_> = state.waits.iter().collect();
        waits.sort_unstable_by_key(|(key, wait)| (wait.since, *key));
        let waits = waits.into_iter().map(|(key, wait)| Waiting {
            what: wait.on.to_string(),
            seq: (!crate::state::is_own(key)).then_some(key),
            since: Timestamp(wait.since),
            note: None,
        });
        waits.collect()
    }

    /// Polls what is ready until nothing is.
    fn run(&mut self) -> Result<(), Halt> {
        let lure = Lure::new();
        self.shared.lock().waker = lure.address();
        if let Some(result) = self.executor.run(&self.shared, &lure)? {
            self.end = Some(self.close(result)?);
        }
        Ok(())
    }

    /// Does something that may halt, unless it has halted before.
    fn unless_halted<T>(&mut self, attempt: impl FnOnce(&mut Self) -> Result<T, Halt>) -> Result<T, Halt> {
        if let Some(halt) = &self.halted {
            return Err(halt.clone());
        }
        let result = attempt(self);
        self.halted = result.as_ref().err().cloned();
        result
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.executor.drop_all();
        let mut state = self.shared.lock();
        // What answers queries may hold a context, and that the state: a circle.
        let captured = (std::mem::take(&mut state.queries), std::mem::take(&mut state.spawned));
        drop(state);
        drop(captured);
    }
}
