//! The context: everything a workflow's code may ask for.

mod activity;
mod cancelled;
mod child;
mod leaf;
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
pub use signal::{Recv, Signals};
pub use spawn::JoinHandle;
pub use timer::Sleep;
pub use update::{RecvRequest, Request, Updates};

use crate::ending::{Ending, WorkflowError};
use crate::halt::Halt;
use crate::state::{Shared, State};

/// A workflow's way to the world. Cheap to clone; every clone belongs to the same run.
///
/// Nothing else may be awaited in a workflow, and nothing else may decide what it does: no clock, no random number,
/// no environment, no state outside of the run. What comes from here is the same in every replay.
#[derive(Clone)]
pub struct Ctx {
    pub(crate) shared: Arc<Shared>,
    shielded: bool,
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("shielded", &self.shielded).finish_non_exhaustive()
    }
}

impl Ctx {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, shielded: false }
    }

    /// A context whose awaits are not affected when the run is asked to cancel: for cleaning up.
    pub fn shielded(&self) -> Self {
        Self { shared: self.shared.clone(), shielded: true }
    }

    /// The run's identity.
    pub fn run_id(&self) -> RunId {
        self.shared.lock().run.clone()
    }

    /// Whether the code is being replayed: it has been here before, and should not log it again.
    pub fn is_replaying(&self) -> bool {
        !self.shared.lock().script.is_live()
    }

    /// How often the run has continued as new before.
    pub fn continued(&self) -> u64 {
        self.shared.lock().continued
    }

    /// Whether the journal is so long that the run should [continue as new](Self::continue_as_new) soon: from four
    /// fifths of the limit on. A run beyond the limit is blocked.
    pub fn should_continue_as_new(&self) -> bool {
        let state = self.shared.lock();
        state.position - state.base.min(state.position) >= state.limit / 5 * 4
    }

    /// Ends the run so that it begins again, under the same id and with an empty journal. Signals that were not
    /// received yet are carried over. To be returned: `return ctx.continue_as_new(&next)`. A run that was asked to
    /// cancel ends as cancelled instead.
    pub fn continue_as_new<I: Serialize + 'static, O>(&self, input: &I) -> Result<O, WorkflowError> {
        let mut state = self.shared.lock();
        if state.input != std::any::TypeId::of::<I>() {
            let message = format!("`{}` is not what the workflow takes", std::any::type_name::<I>());
            state.stop(Halt::Unreadable { what: "what the run continues with".into(), message });
        }
        let input =
            Json::from_value(input).map_err(|error| WorkflowError(Ending::Unwritable(error.to_string())))?;
        Err(WorkflowError(Ending::ContinueAsNew(input)))
    }

    /// Waits for all of the futures and returns their outputs in the order of the futures. What happens to one
    /// branch costs nothing to the others, so there may be many thousands.
    pub fn join_all<F: Future>(&self, futures: impl IntoIterator<Item = F>) -> crate::JoinAll<F> {
        crate::JoinAll::new(self.shared.clone(), futures)
    }

    /// A list of compensations for what the workflow has done so far.
    pub fn saga(&self) -> crate::Saga {
        crate::Saga::new(self)
    }
}

/// Stops the run when something it was asked for cannot be said.
fn refuse(state: &mut State, what: String, message: String) {
    state.stop(Halt::Unreadable { what, message });
}
