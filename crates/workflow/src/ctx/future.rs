//! The base of every future of the context.

use std::sync::Arc;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;
use tidemill_core::workflow::{Command, Json};

use super::Ctx;
use crate::error::{RunCancelled, TooLarge};
use crate::foreign_await::{Detection, waker_address};
use crate::state::{RunState, SharedState, WaitResult, WaitTarget};

/// Issues a command on the first poll, waits for its result, and cancels it if dropped before.
pub(crate) struct CtxFuture {
    pub(crate) shared: Arc<SharedState>,
    shielded: bool,
    /// The key of the wait; 0 before it begins and after it ends.
    key: u64,
}

/// Why a command is not issued.
pub(crate) enum IssueError {
    Cancelled,
    TooLarge(TooLarge),
}

impl CtxFuture {
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { shared: ctx.shared.clone(), shielded: ctx.shielded, key: 0 }
    }

    /// Issues a numbered command and waits for its result. A run with a cancel request issues none,
    /// unless shielded.
    pub(crate) fn issue(
        &mut self,
        target: WaitTarget,
        command: impl FnOnce(&RunState, u64) -> Command,
    ) -> Result<(), RunCancelled> {
        let mut state = self.shared.lock();
        if state.cancel_requested && !self.shielded {
            return Err(RunCancelled);
        }
        let seq = state.next_seq();
        let command = command(&state, seq);
        state.issue(command);
        if !state.is_stopped() {
            let since = state.now;
            state.waits.open(seq, target, self.shielded, since);
            self.key = seq;
        }
        Ok(())
    }

    /// Issues a command with a payload of `size` bytes of JSON, unless that is too large.
    pub(crate) fn issue_with_payload(
        &mut self,
        target: WaitTarget,
        size: usize,
        command: impl FnOnce(&RunState, u64) -> Command,
    ) -> Result<(), IssueError> {
        let mut state = self.shared.lock();
        if state.cancel_requested && !self.shielded {
            return Err(IssueError::Cancelled);
        }
        let next = state.seq + 1;
        let checked = state.check_size(next, describe_payload(target), size);
        if let Err(too_large) = checked {
            state.next_seq();
            return Err(IssueError::TooLarge(too_large));
        }
        drop(state);
        self.issue(target, command).map_err(|RunCancelled| IssueError::Cancelled)
    }

    /// Waits for something that needs no command. `find` may return it at once.
    pub(crate) fn wait_for<T>(
        &mut self,
        target: WaitTarget,
        find: impl FnOnce(&mut RunState, u64) -> Option<T>,
    ) -> Result<Option<T>, RunCancelled> {
        let mut state = self.shared.lock();
        if state.cancel_requested && !self.shielded && target != WaitTarget::Cancel {
            return Err(RunCancelled);
        }
        if state.is_stopped() {
            return Ok(None);
        }
        let (key, since) = (state.next_unnumbered_key(), state.now);
        let found = find(&mut state, key);
        if found.is_none() {
            state.waits.open(key, target, self.shielded, since);
            self.key = key;
        }
        Ok(found)
    }

    /// Waits for an existing key.
    pub(crate) fn attach(&mut self, key: u64) {
        self.key = key;
    }

    pub(crate) fn is_shielded(&self) -> bool {
        self.shielded
    }

    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<WaitResult> {
        let mut state = self.shared.lock();
        if !may_poll(&mut state, cx) {
            return Poll::Pending;
        }
        let Some((target, result)) = state.waits.poll(self.key) else { return Poll::Pending };
        state.last_wait = Some((target, self.key));
        self.key = 0;
        Poll::Ready(result)
    }

    /// Whether the child of this command exists.
    pub(crate) fn poll_started(&mut self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        if may_poll(&mut state, cx) && state.waits.poll_started(self.key) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Stops waiting without cancelling the command.
    pub(crate) fn detach(&mut self) {
        self.shared.lock().waits.remove(self.key);
        self.key = 0;
    }

    /// Deserializes a value. One that does not fit blocks the run, and the future stays pending.
    pub(crate) fn deserialize<T: DeserializeOwned>(
        &self,
        json: &Json,
        what: impl FnOnce() -> String,
    ) -> Poll<T> {
        match json.read() {
            Ok(value) => Poll::Ready(value),
            Err(error) => {
                self.shared.lock().block_unreadable(what(), error);
                Poll::Pending
            }
        }
    }
}

/// Describes the payload of a command.
fn describe_payload(target: WaitTarget) -> String {
    match target {
        WaitTarget::SendSignal(signal) => format!("the payload of signal `{signal}`"),
        target => format!("the input of {target}"),
    }
}

/// Whether the future may complete in this poll.
fn may_poll(state: &mut RunState, cx: &Context<'_>) -> bool {
    if state.waker_address != waker_address(cx.waker()) {
        state.block_foreign_await(Detection::Combinator);
    }
    !state.is_stopped()
}

impl Drop for CtxFuture {
    fn drop(&mut self) {
        if self.key != 0 {
            self.shared.lock().drop_wait(self.key);
        }
    }
}
