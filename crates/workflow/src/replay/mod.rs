//! The replayer: takes events and returns commands. It runs the code of one run and needs neither a
//! store nor a runtime.

mod advance;
mod apply;
mod close;
mod diagnose;
mod executor;
mod journal;
mod query;

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

use crate::blocked::Blocked;
use crate::foreign_await::ForeignWakeDetector;
use crate::program::Program;
use crate::state::SharedState;
use executor::Executor;

/// A run in memory.
///
/// [`replay`](Self::replay) brings it to the end of its journal, [`advance`](Self::advance) applies
/// new events. It may be kept between tasks, moved between threads, and dropped at any time,
/// because the journal holds the whole state. After it has returned [`Blocked`] it cannot be used
/// again.
pub struct Replayer {
    shared: Arc<SharedState>,
    executor: Executor,
    /// Events that are not consumed yet.
    pending: VecDeque<PositionedEvent>,
    /// The position of the last replayed entry.
    last_read: u64,
    /// The position of the last consumed event.
    consumed: u64,
    /// Results of local activities, in the order in which they ended.
    local_results: VecDeque<LocalResult>,
    /// The maximum length of the journal, if it overrides the run's own limit.
    journal_limit: Option<u64>,
    /// Whether the first event was consumed.
    started: bool,
    /// The fields of the first event that the code does not see. Boxed, because most runs have
    /// none.
    origin: Option<Box<RunOrigin>>,
    children: OpenChildren,
    /// Activities that exceeded their schedule-to-close timeout. The next commit cancels their
    /// jobs.
    timed_out: Vec<u64>,
    end: Option<RunEnd>,
    blocked: Option<Blocked>,
}

/// The fields of a run's first event that a continued run inherits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunOrigin {
    pub(crate) parent: Option<Parent>,
    pub(crate) key: Option<String>,
    pub(crate) seed: Option<RunId>,
    pub(crate) journal_limit: Option<u64>,
    pub(crate) keep_ms: Option<u64>,
}

struct LocalResult {
    seq: u64,
    result: ActivityResult,
    attempts: u32,
}

/// The result of advancing a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advance {
    /// The code waits for events. The caller writes this commit.
    Commit(Commit),
    /// The code waits for local activities. The caller runs these, passes each result to
    /// [`finish_local`](Replayer::finish_local), and advances again. Empty if only earlier ones are
    /// still running.
    Local(Vec<LocalActivity>),
}

/// A local activity to run inside the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalActivity {
    /// The number of its command.
    pub seq: u64,
    /// The activity.
    pub name: Kind,
    /// Its input.
    pub input: Json,
    /// Its retry policy.
    pub retry: RetryPolicy,
    /// The timeout of one attempt.
    pub timeout: Option<Duration>,
}

/// Something that a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenWait {
    /// A description: ``activity `charge` ``.
    pub what: String,
    /// The number of the command that caused it, if there is one.
    pub seq: Option<u64>,
    /// When the wait began.
    #[serde(with = "milliseconds")]
    pub since: Timestamp,
    /// What delays it, if known: a paused queue, or no worker that knows the activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Serializes a timestamp in milliseconds, as in journals.
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

impl fmt::Debug for Replayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replayer")
            .field("consumed", &self.consumed)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Replayer {
    /// A run that has replayed no entry yet.
    pub fn new(program: &Program, run: RunId) -> Self {
        Self {
            shared: SharedState::new(program, run),
            executor: Executor::default(),
            pending: VecDeque::new(),
            last_read: 0,
            consumed: 0,
            local_results: VecDeque::new(),
            journal_limit: None,
            started: false,
            origin: None,
            children: OpenChildren::default(),
            timed_out: Vec::new(),
            end: None,
            blocked: None,
        }
    }

    /// Sets the position before the journal's first entry. Positions continue when a run continues
    /// as new.
    pub fn base(mut self, position: u64) -> Self {
        (self.last_read, self.consumed) = (position, position);
        self.shared.lock().base = position;
        self
    }

    /// Overrides the maximum length of the journal, in entries. The code still sees the run's own
    /// limit.
    pub fn journal_limit(mut self, entries: u64) -> Self {
        self.journal_limit = Some(entries);
        self
    }

    /// Sets the maximum size of a payload in bytes of JSON; 1 MiB unless set.
    pub fn payload_limit(self, bytes: usize) -> Self {
        self.shared.lock().payload_limit = bytes;
        self
    }

    /// The position of the last consumed event: the cursor that the next commit is compared with.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The program it runs.
    pub(crate) fn program(&self) -> Program {
        self.shared.lock().program.clone()
    }

    /// How often the run has continued as new.
    pub(crate) fn continued(&self) -> u64 {
        self.shared.lock().continued
    }

    pub(crate) fn origin(&self) -> Option<&RunOrigin> {
        self.origin.as_deref()
    }

    /// The children whose end was not received yet.
    pub fn children(&self) -> &OpenChildren {
        &self.children
    }

    /// Takes the activities that exceeded their schedule-to-close timeout since the last call.
    /// Their jobs still exist.
    pub fn take_timed_out(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.timed_out)
    }

    /// Takes the children that a `select!` dropped as unselected since the last call.
    pub(crate) fn take_unselected_children(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.shared.lock().unselected_children)
    }

    /// How the run ended, if it has.
    pub fn end(&self) -> Option<&RunEnd> {
        self.end.as_ref()
    }

    /// What the run waits for, the oldest first.
    pub fn waits(&self) -> Vec<OpenWait> {
        let state = self.shared.lock();
        let mut waits: Vec<_> = state.waits.iter().collect();
        waits.sort_unstable_by_key(|(key, wait)| (wait.since, *key));
        let waits = waits.into_iter().map(|(key, wait)| OpenWait {
            what: wait.target.to_string(),
            seq: (!crate::state::is_unnumbered(key)).then_some(key),
            since: Timestamp(wait.since),
            note: None,
        });
        waits.collect()
    }

    /// Polls ready tasks until none is left.
    fn poll_ready(&mut self) -> Result<(), Blocked> {
        let detector = ForeignWakeDetector::new();
        self.shared.lock().waker_address = detector.waker_address();
        if let Some(result) = self.executor.run(&self.shared, &detector)? {
            self.end = Some(self.close(result)?);
        }
        Ok(())
    }

    /// Runs `attempt` unless the run is blocked, and remembers if it blocks the run.
    fn unless_blocked<T>(
        &mut self,
        attempt: impl FnOnce(&mut Self) -> Result<T, Blocked>,
    ) -> Result<T, Blocked> {
        if let Some(blocked) = &self.blocked {
            return Err(blocked.clone());
        }
        let result = attempt(self);
        self.blocked = result.as_ref().err().cloned();
        result
    }
}

impl Drop for Replayer {
    fn drop(&mut self) {
        self.executor.drop_all();
        let mut state = self.shared.lock();
        // Query handlers may hold a `Ctx`, which holds the state: a reference cycle.
        let captured = (std::mem::take(&mut state.queries), std::mem::take(&mut state.spawned));
        drop(state);
        drop(captured);
    }
}
