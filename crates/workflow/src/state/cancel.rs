//! Waits that end without an event: on a cancel request, or because their future was dropped.

use tidemill_core::workflow::Command;

use super::RunState;
use super::waits::{WaitResult, WaitTarget};
use crate::select::is_dropping_unselected;

impl RunState {
    /// Handles a cancel request. If the code waits for one, it decides what happens. Otherwise
    /// every wait that is not shielded ends as cancelled.
    pub(crate) fn request_cancel(&mut self) {
        self.cancel_requested = true;
        let listeners = self.waits.open_matching(|wait| wait.target == WaitTarget::Cancel);
        for (key, _) in &listeners {
            self.waits.complete(*key, WaitResult::Happened);
        }
        if !listeners.is_empty() {
            return;
        }
        for (key, target) in self.waits.open_matching(|wait| !wait.shielded && is_cancellable(wait.target)) {
            self.cancel_target(key, target);
            self.waits.complete(key, WaitResult::Cancelled);
        }
    }

    /// Removes the wait of a dropped future.
    pub(crate) fn drop_wait(&mut self, key: u64) {
        let Some(wait) = self.waits.remove(key) else { return };
        match wait.result.map(|result| *result) {
            None => self.cancel_target(key, wait.target),
            Some(WaitResult::Message(message)) => {
                let inbox = if matches!(wait.target, WaitTarget::Update(_)) {
                    &mut self.updates
                } else {
                    &mut self.signals
                };
                if let Some((key, message)) = inbox.return_message(message, |key| self.waits.is_open(key)) {
                    self.waits.complete(key, WaitResult::Message(message));
                }
            }
            Some(_) => {}
        }
    }

    /// Cancels what a wait waits for.
    fn cancel_target(&mut self, key: u64, target: WaitTarget) {
        match target {
            WaitTarget::Activity(_) => self.issue(Command::CancelActivity { seq: key }),
            WaitTarget::Timer => self.issue(Command::CancelTimer { seq: key }),
            // When the parent ends, the `parent_close` policy decides about its children.
            WaitTarget::Child(_) if !self.closing => {
                if is_dropping_unselected() {
                    self.unselected_children.push(key);
                }
                self.issue(Command::CancelChild { seq: key });
            }
            WaitTarget::Signal(name) => self.signals.remove_waiter(name, key),
            WaitTarget::Update(name) => self.updates.remove_waiter(name, key),
            WaitTarget::LocalActivity(_) => self.new_locals.retain(|local| local.seq != key),
            WaitTarget::Child(_) | WaitTarget::SendSignal(_) | WaitTarget::Cancel | WaitTarget::Task => {}
        }
    }
}

/// Whether a wait ends on a cancel request. A wait for a spawned task ends when that task does.
fn is_cancellable(target: WaitTarget) -> bool {
    matches!(
        target,
        WaitTarget::Activity(_)
            | WaitTarget::Timer
            | WaitTarget::Child(_)
            | WaitTarget::Signal(_)
            | WaitTarget::Update(_)
    )
}
