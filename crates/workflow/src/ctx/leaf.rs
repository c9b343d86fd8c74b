//! One await of Tidemill's: what every future of the context is made around.

use std::sync::Arc;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;
use tidemill_core::workflow::{Command, Json};

use super::Ctx;
use crate::error::{Cancelled, TooLarge};
use crate::foreign::{Trace, address};
use crate::state::{On, Outcome, Shared, State};

/// Asks for something when it is first polled, waits for the answer, and takes back what it asked for when it is
/// dropped before.
pub(crate) struct Leaf {
    pub(crate) shared: Arc<Shared>,
    shielded: bool,
    /// The key of the wait; 0 before it began and after it ended.
    key: u64,
}

/// Why something is not asked for.
pub(crate) enum Refused {
    Cancelled,
    TooLarge(TooLarge),
}

impl Leaf {
    pub(crate) fn of(ctx: &Ctx) -> Self {
        Self { shared: ctx.shared.clone(), shielded: ctx.shielded, key: 0 }
    }

    /// Asks for something that has a number. A run that is to cancel asks for nothing any more.
    pub(crate) fn ask(
        &mut self,
        on: On,
        command: impl FnOnce(&State, u64) -> Command,
    ) -> Result<(), Cancelled> {
        let mut state = self.shared.lock();
        if state.cancelling && !self.shielded {
            return Err(Cancelled);
        }
        let seq = state.next_seq();
        let command = command(&state, seq);
        state.issue(command);
        if !state.is_stopped() {
            let since = state.now;
            state.waits.open(seq, on, self.shielded, since);
            self.key = seq;
        }
        Ok(())
    }

    /// Asks for something that is given `size` bytes of JSON, unless that is too much.
    pub(crate) fn hand_on(
        &mut self,
        on: On,
        size: usize,
        command: impl FnOnce(&State, u64) -> Command,
    ) -> Result<(), Refused> {
        let mut state = self.shared.lock();
        if state.cancelling && !self.shielded {
            return Err(Refused::Cancelled);
        }
        let next = state.seq + 1;
        let weighed = state.weigh(next, handed_on(on), size);
        if let Err(too_large) = weighed {
            state.next_seq();
            return Err(Refused::TooLarge(too_large));
        }
        drop(state);
        self.ask(on, command).map_err(|Cancelled| Refused::Cancelled)
    }

    /// Waits for something that is not asked for. `look` may find that it is there already.
    pub(crate) fn listen<T>(
        &mut self,
        on: On,
        look: impl FnOnce(&mut State, u64) -> Option<T>,
    ) -> Result<Option<T>, Cancelled> {
        let mut state = self.shared.lock();
        if state.cancelling && !self.shielded && on != On::Cancel {
            return Err(Cancelled);
        }
        if state.is_stopped() {
            return Ok(None);
        }
        let (key, since) = (state.next_key(), state.now);
        let found = look(&mut state, key);
        if found.is_none() {
            state.waits.open(key, on, self.shielded, since);
            self.key = key;
        }
        Ok(found)
    }

    /// Waits for what the key stands for.
    pub(crate) fn adopt(&mut self, key: u64) {
        self.key = key;
    }

    pub(crate) fn is_shielded(&self) -> bool {
        self.shielded
    }

    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Outcome> {
        let mut state = self.shared.lock();
        if !may_go_on(&mut state, cx) {
            return Poll::Pending;
        }
        let Some((on, outcome)) = state.waits.poll(self.key) else { return Poll::Pending };
        state.after = Some((on, self.key));
        self.key = 0;
        Poll::Ready(outcome)
    }

    /// Whether the child that was asked for exists.
    pub(crate) fn poll_started(&mut self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        if may_go_on(&mut state, cx) && state.waits.poll_started(self.key) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Stops waiting, without taking back what was asked for.
    pub(crate) fn let_go(&mut self) {
        self.shared.lock().waits.close(self.key);
        self.key = 0;
    }

    /// Reads what came. What does not fit stops the run, and the code that awaits it never goes on.
    pub(crate) fn read<T: DeserializeOwned>(&self, json: &Json, what: impl FnOnce() -> String) -> Poll<T> {
        match json.read() {
            Ok(value) => Poll::Ready(value),
            Err(error) => {
                self.shared.lock().misfit(what(), &error);
                Poll::Pending
            }
        }
    }
}

/// What is handed on, in words.
fn handed_on(on: On) -> String {
    match on {
        On::Sent(signal) => format!("the payload of signal `{signal}`"),
        on => format!("the input of {on}"),
    }
}

/// Whether the code may be carried on by whoever polls it.
fn may_go_on(state: &mut State, cx: &Context<'_>) -> bool {
    if state.waker != address(cx.waker()) {
        state.estrange(Trace::Combinator);
    }
    !state.is_stopped()
}

impl Drop for Leaf {
    fn drop(&mut self) {
        if self.key != 0 {
            self.shared.lock().abandon(self.key);
        }
    }
}
