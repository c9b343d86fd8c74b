//! The state of one run in memory: its commands, its waits, and its received messages.
//!
//! The [`Replayer`](crate::Replayer) and every [`Ctx`](crate::Ctx) of the run share it. Only one of
//! them uses it at a time, so the lock is never contended. User code never runs while the lock is
//! held.

mod cancel;
mod command_log;
mod inbox;
mod ready;
mod size_limit;
mod waits;

use std::any::TypeId;
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_core::limits::Limits;
use tidemill_core::workflow::{
    AwaitedMessage, Command, Commit, DEFAULT_MAX_JOURNAL_ENTRIES, Json, RunId, Topic,
};

pub(crate) use command_log::{CommandLog, CommandMismatch, RecordedValue};
pub(crate) use inbox::Inbox;
pub(crate) use ready::PollSource;
pub(crate) use waits::{WaitResult, WaitTarget, Waits};

use crate::blocked::{Blocked, Divergence};
use crate::error::QueryError;
use crate::foreign_await::Detection;
use crate::program::Program;
use crate::replay::LocalActivity;
use crate::rng::RunRng;

/// A task of a run other than the workflow's own function.
pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The function that answers a query.
pub(crate) type QueryHandler = Arc<dyn Fn(&Json) -> Result<Json, QueryError> + Send + Sync>;

/// Whether the key of a wait belongs to no command.
pub(crate) fn is_unnumbered(key: u64) -> bool {
    key & waits::UNNUMBERED != 0
}

pub(crate) struct SharedState(Mutex<RunState>);

impl SharedState {
    pub(crate) fn new(program: &Program, run: RunId) -> Arc<Self> {
        Arc::new(Self(Mutex::new(RunState::new(program, run))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, RunState> {
        // A panic blocks the run, and its state is not read afterwards.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct RunState {
    pub(crate) program: Program,
    pub(crate) run: RunId,
    /// The type of the workflow's input, which `continue_as_new` must match.
    pub(crate) input_type: TypeId,
    /// How often the run has continued as new.
    pub(crate) continued: u64,
    /// The time of the event that is being consumed, in milliseconds.
    pub(crate) now: i64,
    /// The position of that event.
    pub(crate) position: u64,
    /// The name of that event.
    pub(crate) event_name: &'static str,
    /// The position before the journal's first entry.
    pub(crate) base: u64,
    /// The maximum length of the journal that the code sees, in entries.
    pub(crate) journal_limit: u64,
    /// The maximum size of a payload, in bytes.
    pub(crate) payload_limit: usize,
    /// How long children are kept after their end, if the run sets it.
    pub(crate) keep_ms: Option<u64>,
    /// The number of the last numbered command.
    pub(crate) seq: u64,
    /// The number of the last wait without a command.
    last_unnumbered: u64,
    pub(crate) rng: RunRng,
    pub(crate) commands: CommandLog,
    pub(crate) waits: Waits,
    pub(crate) signals: Inbox,
    pub(crate) updates: Inbox,
    /// Whether a cancel request was received.
    pub(crate) cancel_requested: bool,
    /// Whether the run is ending. Dropped futures then cancel nothing that the store cancels
    /// anyway.
    pub(crate) closing: bool,
    /// Children that a `select!` dropped as unselected since the last commit. The code has given
    /// them up.
    pub(crate) unselected_children: Vec<u64>,
    /// The decision of each patch. It stays the same for the rest of the run.
    pub(crate) patches: Vec<(Topic, bool)>,
    pub(crate) queries: Vec<(&'static str, QueryHandler)>,
    /// Tasks that the executor has not taken over yet.
    pub(crate) spawned: Vec<(u32, TaskFuture)>,
    /// Local activities that were not handed out yet.
    pub(crate) new_locals: Vec<LocalActivity>,
    /// Why the run is blocked.
    pub(crate) blocked: Option<Blocked>,
    /// Set while code runs that must not change the run. Holds the first command it issued
    /// nevertheless.
    read_only: Option<Option<String>>,
    /// The last wait that has ended, and its key.
    pub(crate) last_wait: Option<(WaitTarget, u64)>,
    /// The address of the executor's waker, to detect foreign ones.
    pub(crate) waker_address: usize,
}

impl RunState {
    fn new(program: &Program, run: RunId) -> Self {
        Self {
            input_type: program.input(),
            program: program.clone(),
            rng: RunRng::for_run(&run, 0),
            run,
            continued: 0,
            now: 0,
            position: 0,
            event_name: "nothing",
            base: 0,
            journal_limit: DEFAULT_MAX_JOURNAL_ENTRIES,
            payload_limit: Limits::default().payload,
            keep_ms: None,
            seq: 0,
            last_unnumbered: 0,
            commands: CommandLog::Live(Vec::new()),
            waits: Waits::default(),
            signals: Inbox::default(),
            updates: Inbox::default(),
            cancel_requested: false,
            closing: false,
            unselected_children: Vec::new(),
            patches: Vec::new(),
            queries: Vec::new(),
            spawned: Vec::new(),
            new_locals: Vec::new(),
            blocked: None,
            read_only: None,
            last_wait: None,
            waker_address: 0,
        }
    }

    /// Whether futures of the `Ctx` must stay pending.
    pub(crate) fn is_stopped(&self) -> bool {
        self.blocked.is_some() || self.read_only.is_some()
    }

    /// Blocks the run. The first reason is the cause and is kept.
    pub(crate) fn block(&mut self, blocked: Blocked) {
        if self.read_only.is_none() {
            self.blocked.get_or_insert(blocked);
        }
    }

    /// The number of the next command.
    pub(crate) fn next_seq(&mut self) -> u64 {
        if !self.is_stopped() {
            self.seq += 1;
        }
        self.seq
    }

    /// A key for a wait that belongs to no command.
    pub(crate) fn next_unnumbered_key(&mut self) -> u64 {
        self.last_unnumbered += 1;
        waits::UNNUMBERED | self.last_unnumbered
    }

    /// The messages that the code waits for, sorted.
    pub(crate) fn awaited_messages(&self) -> Vec<AwaitedMessage> {
        // Dropping the code at its end leaves waiters behind.
        if self.closing {
            return Vec::new();
        }
        let is_open = |key| self.waits.is_open(key);
        let signals = self.signals.awaited(is_open).map(AwaitedMessage::Signal);
        let updates = self.updates.awaited(is_open).map(AwaitedMessage::Update);
        let mut awaited: Vec<_> = signals.chain(updates).collect();
        awaited.sort_unstable();
        awaited.truncate(Commit::MAX_AWAITED_MESSAGES);
        awaited
    }

    /// Issues a command: records it, or compares it with the journal in a replay.
    pub(crate) fn issue(&mut self, command: Command) {
        if !self.may_change_run(&command) || self.blocked.is_some() {
            return;
        }
        if let Err(mismatch) = self.commands.record(command) {
            self.block_diverged(mismatch);
        }
    }

    /// Whether the running code may change the run. If not, keeps what it asked for.
    pub(crate) fn may_change_run(&mut self, command: &dyn Display) -> bool {
        match &mut self.read_only {
            None => true,
            Some(first) => {
                first.get_or_insert_with(|| command.to_string());
                false
            }
        }
    }

    /// Begins code that must not change the run.
    pub(crate) fn begin_read_only(&mut self) {
        self.read_only = Some(None);
    }

    /// Ends it and returns the first command it issued nevertheless.
    pub(crate) fn end_read_only(&mut self) -> Option<String> {
        self.read_only.take().flatten()
    }

    /// Blocks the run because its code diverges from the journal.
    pub(crate) fn block_diverged(&mut self, mismatch: CommandMismatch) {
        let CommandMismatch { position, index, expected, got } = mismatch;
        let divergence = Divergence {
            workflow: self.program.name().clone(),
            version: self.program.version().clone(),
            run: self.run.clone(),
            position,
            index,
            expected,
            got,
            consumed: self.position,
            event: self.event_name,
        };
        self.block(Blocked::Diverged(Box::new(divergence)));
    }

    /// Blocks the run because a value does not fit the type that the code gives it.
    pub(crate) fn block_unreadable(&mut self, what: impl Into<String>, error: impl Display) {
        self.block(Blocked::Unreadable { what: what.into(), message: error.to_string() });
    }

    /// Blocks the run because its code awaits a foreign future.
    pub(crate) fn block_foreign_await(&mut self, detection: Detection) {
        let after = match &self.last_wait {
            Some((target, key)) if !is_unnumbered(*key) => format!("{target} (seq {key})"),
            Some((target, _)) => target.to_string(),
            None => "its start".to_owned(),
        };
        let workflow = self.program.name().clone();
        self.block(Blocked::ForeignAwait(Box::new(crate::ForeignAwait {
            workflow,
            after,
            detection,
            location: None,
        })));
    }
}
