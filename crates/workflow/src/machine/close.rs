//! The end of a run.

use tidemill_core::workflow::{Command, Json, RunEnd, UpdateResult};

use super::Machine;
use super::executor::halted;
use crate::ending::{Ending, WorkflowError};
use crate::halt::Halt;

impl Machine {
    /// The workflow's function has returned: drops whatever goes on beside it and says how the run ends.
    pub(super) fn close(&mut self, result: Result<Json, WorkflowError>) -> Result<RunEnd, Halt> {
        self.shared.lock().closing = true;
        self.executor.drop_all();
        let end = self.ending(result)?;
        self.refuse_updates();
        halted(&self.shared)?;
        Ok(end)
    }

    /// Whoever waits for an answer gets one. A run that continues as new has taken along what it has not looked at.
    fn refuse_updates(&mut self) {
        let mut state = self.shared.lock();
        for update in state.updates.drain() {
            let result = UpdateResult::Failed { message: "the run ended before it looked at this".into() };
            state.issue(Command::UpdateDone { id: update.id, result });
        }
    }

    fn ending(&mut self, result: Result<Json, WorkflowError>) -> Result<RunEnd, Halt> {
        let mut state = self.shared.lock();
        Ok(match result {
            Ok(output) => {
                let what = format_args!("the output of workflow `{}`", state.program.name());
                state.weigh_end(what, &output)?;
                RunEnd::Completed(output)
            }
            Err(WorkflowError(Ending::Failed(message))) => RunEnd::Failed { message },
            // The request must not get lost on the way.
            Err(WorkflowError(Ending::Cancelled(_) | Ending::ContinueAsNew(_))) if state.cancelling => {
                RunEnd::Cancelled
            }
            // An activity or a child was cancelled by somebody else.
            Err(WorkflowError(Ending::Cancelled(message))) => RunEnd::Failed { message },
            Err(WorkflowError(Ending::ContinueAsNew(input))) => {
                state.weigh_end("what the run continues with", &input)?;
                let (signals, updates) = (state.signals.drain(), state.updates.drain());
                RunEnd::ContinuedAsNew { input, seq: state.seq, signals, updates }
            }
            Err(WorkflowError(Ending::Unwritable(message))) => {
                let what = format!("the output of workflow `{}`", state.program.name());
                return Err(Halt::Unreadable { what, message });
            }
        })
    }
}
