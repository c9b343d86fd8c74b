//! The end of a run, after the workflow's function has returned.

use tidemill_core::workflow::{Command, Json, RunEnd, UpdateResult};

use super::Replayer;
use super::executor::check_blocked;
use crate::blocked::Blocked;
use crate::error::{WorkflowError, WorkflowErrorKind};

impl Replayer {
    /// Drops all tasks of the run and returns how it ends.
    pub(super) fn close(&mut self, result: Result<Json, WorkflowError>) -> Result<RunEnd, Blocked> {
        self.shared.lock().closing = true;
        self.executor.drop_all();
        let end = self.run_end(result)?;
        self.fail_unread_updates();
        check_blocked(&self.shared)?;
        Ok(end)
    }

    /// Fails updates that the code has not received, so that their senders get an answer. A run
    /// that continues as new has carried them over already.
    fn fail_unread_updates(&mut self) {
        let mut state = self.shared.lock();
        for update in state.updates.drain() {
            let result = UpdateResult::Failed { message: "the run ended before it looked at this".into() };
            state.issue(Command::UpdateDone { id: update.id, result });
        }
    }

    fn run_end(&mut self, result: Result<Json, WorkflowError>) -> Result<RunEnd, Blocked> {
        let mut state = self.shared.lock();
        Ok(match result {
            Ok(output) => {
                let name = state.program.name();
                state.check_end_size(format_args!("the output of workflow `{name}`"), &output)?;
                RunEnd::Completed(output)
            }
            Err(WorkflowError(WorkflowErrorKind::Failed(message))) => RunEnd::Failed { message },
            // The cancel request must not get lost in the continued run.
            Err(WorkflowError(WorkflowErrorKind::Cancelled(_) | WorkflowErrorKind::ContinueAsNew(_)))
                if state.cancel_requested =>
            {
                RunEnd::Cancelled
            }
            // An activity or a child was cancelled, but not by a cancel request to this run.
            Err(WorkflowError(WorkflowErrorKind::Cancelled(message))) => RunEnd::Failed { message },
            Err(WorkflowError(WorkflowErrorKind::ContinueAsNew(input))) => {
                state.check_end_size("what the run continues with", &input)?;
                let (signals, updates) = (state.signals.drain(), state.updates.drain());
                RunEnd::ContinuedAsNew { input, seq: state.seq, signals, updates }
            }
            Err(WorkflowError(WorkflowErrorKind::Unserializable(message))) => {
                let what = format!("the output of workflow `{}`", state.program.name());
                return Err(Blocked::Unreadable { what, message });
            }
        })
    }
}
