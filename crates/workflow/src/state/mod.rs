//! The state of one run while its code is in memory: what the code has asked for, what it waits for, what has come.
//!
//! It is shared between the [`Machine`](crate::Machine) and every [`Ctx`](crate::Ctx) of the run. Only one of them
//! uses it at a time, so the lock is never waited for; no code of the user's ever runs while it is held.

mod cancel;
mod inbox;
mod ready;
mod script;
mod waits;
mod weigh;

use std::any::TypeId;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_core::limits::Limits;
use tidemill_core::workflow::{Command, JOURNAL_LIMIT, Json, RunId, Topic};

pub(crate) use inbox::Inbox;
pub(crate) use ready::Place;
pub(crate) use script::{Recorded, Script};
pub(crate) use waits::{On, Outcome, Waits};

use crate::dice::Dice;
use crate::error::QueryError;
use crate::foreign::Trace;
use crate::halt::{Divergence, Halt};
use crate::machine::LocalTask;
use crate::program::Program;

/// A task of a run other than its first.
pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The code that answers a query.
pub(crate) type Answer = Arc<dyn Fn(&Json) -> Result<Json, QueryError> + Send + Sync>;

/// Whether the key of a wait belongs to no command.
pub(crate) fn is_own(key: u64) -> bool {
    key & waits::OWN != 0
}

pub(crate) struct Shared(Mutex<State>);

impl Shared {
    pub(crate) fn new(program: &Program, run: RunId) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State::new(program, run))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic is a halt of the run, and nobody looks at its state afterwards.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct State {
    pub(crate) program: Program,
    pub(crate) run: RunId,
    /// What the workflow's input is, so that it continues with nothing else.
    pub(crate) input: TypeId,
    /// How often the run has continued as new.
    pub(crate) continued: u64,
    /// The time of the event that is being consumed, in milliseconds.
    pub(crate) now: i64,
    /// The position of that event.
    pub(crate) position: u64,
    /// What that event is, in a word.
    pub(crate) event: &'static str,
    /// The position before the first of the journal.
    pub(crate) base: u64,
    /// How long the journal may grow, as far as the code is told.
    pub(crate) limit: u64,
    /// How large anything may be that the code hands on, in bytes.
    pub(crate) payload_limit: usize,
    /// How long its children are kept when they have ended, if somebody said so.
    pub(crate) keep_ms: Option<u64>,
    /// The number of the last command that has one.
    pub(crate) seq: u64,
    /// The key of the last wait that belongs to no command.
    own_keys: u64,
    pub(crate) dice: Dice,
    pub(crate) script: Script,
    pub(crate) waits: Waits,
    pub(crate) signals: Inbox,
    pub(crate) updates: Inbox,
    /// Somebody has asked the run to cancel.
    pub(crate) cancelling: bool,
    /// The run's end has come: what is dropped now is not cancelled one by one where the store does it anyway.
    pub(crate) closing: bool,
    /// The children that have lost a `select!` since the last commit: the code itself does not want them any more.
    pub(crate) losers: Vec<u64>,
    /// The way each patch went, once it was asked for: it goes the same way for the rest of the run.
    pub(crate) patches: Vec<(Topic, bool)>,
    pub(crate) queries: Vec<(&'static str, Answer)>,
    /// Tasks that the executor has not taken over yet.
    pub(crate) spawned: Vec<(u32, TaskFuture)>,
    /// Local activities that the machine's owner has not been told of yet.
    pub(crate) locals: Vec<LocalTask>,
    /// Why the code cannot go on.
    pub(crate) halt: Option<Halt>,
    /// Code is running that must not change the run; what it asked for nevertheless.
    barred: Option<Option<String>>,
    /// The last thing the code has waited for.
    pub(crate) after: Option<(On, u64)>,
    /// Tells the executor's own waker from a foreign one: its address.
    pub(crate) waker: usize,
}

impl State {
    fn new(program: &Program, run: RunId) -> Self {
        Self {
            input: program.input(),
            program: program.clone(),
            dice: Dice::of(&run, 0),
            run,
            continued: 0,
            now: 0,
            position: 0,
            event: "nothing",
            base: 0,
            limit: JOURNAL_LIMIT,
            payload_limit: Limits::default().payload,
            keep_ms: None,
            seq: 0,
            own_keys: 0,
            script: Script::Live(Vec::new()),
            waits: Waits::default(),
            signals: Inbox::default(),
            updates: Inbox::default(),
            cancelling: false,
            closing: false,
            losers: Vec::new(),
            patches: Vec::new(),
            queries: Vec::new(),
            spawned: Vec::new(),
            locals: Vec::new(),
            halt: None,
            barred: None,
            after: None,
            waker: 0,
        }
    }

    /// Whether the code must not be carried any further.
    pub(crate) fn is_stopped(&self) -> bool {
        self.halt.is_some() || self.barred.is_some()
    }

    /// Stops the run. What went wrong first is the cause of the rest.
    pub(crate) fn stop(&mut self, halt: Halt) {
        if self.barred.is_none() {
            self.halt.get_or_insert(halt);
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
    pub(crate) fn next_key(&mut self) -> u64 {
        self.own_keys += 1;
        waits::OWN | self.own_keys
    }

    /// The code asks for something: noted down, or compared with what it asked for before.
    pub(crate) fn issue(&mut self, command: Command) {
        if !self.allows(&command) || self.halt.is_some() {
            return;
        }
        if let Err(mismatch) = self.script.issue(command) {
            self.diverge(mismatch.position, mismatch.index, mismatch.expected, mismatch.got);
        }
    }

    /// Whether the code that is running may change the run.
    pub(crate) fn allows(&mut self, asked: &dyn std::fmt::Display) -> bool {
        match &mut self.barred {
            None => true,
            Some(first) => {
                first.get_or_insert_with(|| asked.to_string());
                false
            }
        }
    }

    /// Begins a stretch of code that must not change the run.
    pub(crate) fn bar(&mut self) {
        self.barred = Some(None);
    }

    /// Ends it; what it asked for nevertheless.
    pub(crate) fn unbar(&mut self) -> Option<String> {
        self.barred.take().flatten()
    }

    pub(crate) fn diverge(&mut self, position: u64, index: usize, expected: String, got: String) {
        let divergence = Divergence {
            workflow: self.program.name().clone(),
            version: self.program.version().clone(),
            run: self.run.clone(),
            position,
            index,
            expected,
            got,
            consumed: self.position,
            event: self.event,
        };
        self.stop(Halt::Diverged(Box::new(divergence)));
    }

    /// What came in or was to be written does not fit the type the code gives it.
    pub(crate) fn misfit(&mut self, what: impl Into<String>, error: &serde_json::Error) {
        self.stop(Halt::Unreadable { what: what.into(), message: error.to_string() });
    }

    /// Stops the run because its code awaits what is not Tidemill's.
    pub(crate) fn estrange(&mut self, trace: Trace) {
        let after = match &self.after {
            Some((on, key)) if !is_own(*key) => format!("{on} (seq {key})"),
            Some((on, _)) => on.to_string(),
            None => "its start".to_owned(),
        };
        let workflow = self.program.name().clone();
        self.stop(Halt::Foreign(Box::new(crate::Foreign { workflow, after, trace, place: None })));
    }
}
