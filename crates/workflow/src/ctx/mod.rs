//! The context: the API of a workflow's code.

mod activity;
mod cancelled;
mod child;
mod future;
mod local;
mod query;
mod send;
mod signal;
mod spawn;
mod timer;
mod update;
mod value;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use tidemill_core::workflow::{Json, RunId};

pub use activity::ActivityCall;
pub use cancelled::CancelledFuture;
pub use child::{ChildCall, ChildHandle, DetachedChild, StartedChild};
pub use local::LocalCall;
pub use send::SendSignal;
pub use signal::{RecvSignal, Signals};
pub use spawn::JoinHandle;
pub use timer::Sleep;
pub use update::{RecvUpdate, UpdateRequest, Updates};

use crate::error::{WorkflowError, WorkflowErrorKind};
use crate::state::SharedState;

/// What a command is built from, or why it cannot be built. Boxed, because the workflow's future
/// stores it.
type Draft<T> = Result<Box<T>, String>;

/// The context of a run. Cheap to clone; every clone belongs to the same run.
///
/// A workflow must await nothing else, and nothing else may affect its behaviour: no clock, random
/// number, environment, or state outside the run. Everything from the context is the same in every
/// replay.
#[derive(Clone)]
pub struct Ctx {
    pub(crate) shared: Arc<SharedState>,
    shielded: bool,
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("shielded", &self.shielded).finish_non_exhaustive()
    }
}

impl Ctx {
    pub(crate) fn new(shared: Arc<SharedState>) -> Self {
        Self { shared, shielded: false }
    }

    /// A context whose awaits ignore cancel requests: for cleanup.
    pub fn shielded(&self) -> Self {
        Self { shared: self.shared.clone(), shielded: true }
    }

    /// The run's id.
    pub fn run_id(&self) -> RunId {
        self.shared.lock().run.clone()
    }

    /// Whether the code is being replayed. Skip log messages then: they were written before.
    pub fn is_replaying(&self) -> bool {
        !self.shared.lock().commands.is_live()
    }

    /// How often the run has continued as new.
    pub fn continued(&self) -> u64 {
        self.shared.lock().continued
    }

    /// Whether the run should [continue as new](Self::continue_as_new) soon: the journal has
    /// reached four fifths of its limit. A run beyond the limit is blocked.
    pub fn should_continue_as_new(&self) -> bool {
        let state = self.shared.lock();
        state.position - state.base.min(state.position) >= state.journal_limit / 5 * 4
    }

    /// Restarts the run under the same id with an empty journal. Carries over signals and updates
    /// that were not received yet. Return its result: `return ctx.continue_as_new(&next)`. A run
    /// that was asked to cancel ends as cancelled instead.
    pub fn continue_as_new<I: Serialize + 'static, O>(&self, input: &I) -> Result<O, WorkflowError> {
        let mut state = self.shared.lock();
        if state.input_type != std::any::TypeId::of::<I>() {
            let message = format!("`{}` is not what the workflow takes", std::any::type_name::<I>());
            state.block_unreadable("what the run continues with", message);
        }
        let input = Json::from_value(input)
            .map_err(|error| WorkflowError(WorkflowErrorKind::Unserializable(error.to_string())))?;
        Err(WorkflowError(WorkflowErrorKind::ContinueAsNew(input)))
    }

    /// Waits for all futures and returns their outputs in the order of the futures. Polls only
    /// woken branches, so many thousands are fine.
    pub fn join_all<F: Future>(&self, futures: impl IntoIterator<Item = F>) -> crate::JoinAll<F> {
        crate::JoinAll::new(self.shared.clone(), futures)
    }

    /// An empty list of compensations.
    pub fn saga(&self) -> crate::Saga {
        crate::Saga::new(self)
    }
}
