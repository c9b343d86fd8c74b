//! One event at a time: what each means to the code.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidemill_core::workflow::{
    ActivityFailure, ActivityResult, ChildResult, FailureKind, JOURNAL_LIMIT, PositionedEvent, RunEvent,
    RunStarted, SignalDelivery, StoredSignal, Timeout,
};

use super::executor::panicked;
use super::{Machine, Origin};
use crate::ctx::Ctx;
use crate::dice::Dice;
use crate::halt::Halt;
use crate::state::{On, Outcome, State};

impl Machine {
    /// Consumes an event and polls the code until it waits again.
    pub(super) fn feed(&mut self, arrived: PositionedEvent) -> Result<(), Halt> {
        let PositionedEvent { position, at, event } = arrived;
        self.consumed = position;
        {
            let mut state = self.shared.lock();
            let limit = self.limit.unwrap_or(state.limit);
            let length = position - state.base.min(position);
            if length > limit {
                return Err(Halt::TooLong { length, limit });
            }
            // Time never goes back, whatever a store's clock was set to meanwhile.
            state.now = state.now.max(at.0);
            (state.position, state.event) = (position, event.as_str());
        }
        self.children.hear(&event);
        if let Some(seq) = overdue(&event)
            && self.shared.lock().script.is_live()
        {
            self.overdue.push(seq);
        }
        match event {
            RunEvent::Started(started) => self.start(position, *started)?,
            event if self.started => deliver(&mut self.shared.lock(), event),
            event => {
                let message = format!("it begins with `{}`", event.as_str());
                return Err(Halt::Damaged { position, message });
            }
        }
        self.run()
    }

    fn start(&mut self, position: u64, mut started: RunStarted) -> Result<(), Halt> {
        let damaged = |message: String| Err(Halt::Damaged { position, message });
        if std::mem::replace(&mut self.started, true) {
            return damaged("the run starts a second time".into());
        }
        let origin = Origin {
            parent: started.parent.take(),
            key: started.key.take(),
            luck: started.luck.take(),
            limit: started.limit,
            keep_ms: started.keep_ms,
        };
        let program = {
            let mut state = self.shared.lock();
            (state.continued, state.seq) = (started.continued, started.seq);
            state.limit = started.limit.unwrap_or(JOURNAL_LIMIT);
            state.keep_ms = started.keep_ms;
            state.dice = Dice::of(origin.luck.as_ref().unwrap_or(&state.run), started.continued);
            started.signals.into_iter().for_each(|signal| take_in(&mut state, signal, false));
            started.updates.into_iter().for_each(|update| take_in(&mut state, update, true));
            state.program.clone()
        };
        self.origin = (origin != Origin::default()).then(|| Box::new(origin));
        if program.name() != &started.workflow {
            return damaged(format!(
                "it is one of workflow `{}`, not of `{}`",
                started.workflow,
                program.name()
            ));
        }
        let ctx = Ctx::new(self.shared.clone());
        match catch_unwind(AssertUnwindSafe(|| program.start(ctx, &started.input))) {
            Ok(Ok(root)) => self.executor.start(&self.shared, root),
            Ok(Err(error)) => {
                let what = format!("the input of workflow `{}`", program.name());
                return Err(Halt::Unreadable { what, message: error.to_string() });
            }
            Err(panic) => return Err(panicked(&self.shared, panic.as_ref())),
        }
        Ok(())
    }
}

/// Tells the code what happened. What nobody waits for any more is no news: it was cancelled, or came twice.
fn deliver(state: &mut State, event: RunEvent) {
    match event {
        RunEvent::ActivityDone { seq, result } => activity_done(state, seq, result),
        RunEvent::TimerFired { seq } => answer(state, seq, |on| on == On::Timer, Outcome::Happened),
        RunEvent::ChildStarted { seq, .. } => state.waits.child_started(seq),
        RunEvent::ChildDone { seq, result } => {
            // Whatever ended well enough has been there.
            if !matches!(result, ChildResult::Failed { .. }) {
                state.waits.child_started(seq);
            }
            answer(state, seq, |on| matches!(on, On::Child(_)), Outcome::Child(result));
        }
        RunEvent::SignalSent { seq, result } => {
            answer(state, seq, |on| matches!(on, On::Sent(_)), Outcome::Sent(result));
        }
        RunEvent::Signal(signal) => take_in(state, signal, false),
        RunEvent::Update { id, name, payload } => take_in(state, StoredSignal { name, payload, id }, true),
        RunEvent::CancelRequested { .. } => state.request_cancel(),
        RunEvent::Started(_) => {}
    }
}

/// Whether an activity was given up because of all the time it took.
fn overdue(event: &RunEvent) -> Option<u64> {
    let late = FailureKind::TimedOut(Timeout::ScheduleToClose);
    match event {
        RunEvent::ActivityDone { seq, result: ActivityResult::Failed(failure) } if failure.kind == late => {
            Some(*seq)
        }
        _ => None,
    }
}

/// An activity has ended. What starts a child or sends a signal is a job as well, and if no worker survives it that is
/// said in the same way.
fn activity_done(state: &mut State, seq: u64, result: ActivityResult) {
    let outcome = match (state.waits.on(seq), result) {
        (Some(On::Activity(_)), result) => Outcome::Activity(result),
        (Some(On::Child(_)), ActivityResult::Failed(ActivityFailure { message, .. })) => {
            Outcome::Child(ChildResult::Failed { message })
        }
        (Some(On::Sent(_)), ActivityResult::Failed(ActivityFailure { message, .. })) => {
            Outcome::Sent(SignalDelivery::Failed { message })
        }
        _ => return,
    };
    state.waits.answer(seq, outcome);
}

fn answer(state: &mut State, seq: u64, fits: impl Fn(On) -> bool, outcome: Outcome) {
    if state.waits.on(seq).is_some_and(fits) {
        state.waits.answer(seq, outcome);
    }
}

fn take_in(state: &mut State, message: StoredSignal, is_update: bool) {
    let inbox = if is_update { &mut state.updates } else { &mut state.signals };
    if let Some((key, message)) = inbox.arrive(message, |key| state.waits.is_open(key)) {
        state.waits.answer(key, Outcome::Message(message));
    }
}
