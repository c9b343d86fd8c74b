//! `apply`: passes one event to the code.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidemill_core::workflow::{
    ActivityFailure, ActivityResult, ChildResult, DEFAULT_MAX_JOURNAL_ENTRIES, FailureKind, PositionedEvent,
    RunEvent, RunStarted, SignalDelivery, StoredSignal, Timeout,
};

use super::executor::panicked;
use super::{Replayer, RunOrigin};
use crate::blocked::Blocked;
use crate::ctx::Ctx;
use crate::rng::RunRng;
use crate::state::{RunState, WaitResult, WaitTarget};

impl Replayer {
    /// Consumes an event and polls the code until it waits again.
    pub(super) fn apply(&mut self, event: PositionedEvent) -> Result<(), Blocked> {
        let PositionedEvent { position, at, event } = event;
        self.consumed = position;
        {
            let mut state = self.shared.lock();
            let limit = self.journal_limit.unwrap_or(state.journal_limit);
            let length = position - state.base.min(position);
            if length > limit {
                return Err(Blocked::TooLong { length, limit });
            }
            // Time never goes backwards, even if the store's clock was set back.
            state.now = state.now.max(at.0);
            (state.position, state.event_name) = (position, event.as_str());
        }
        self.children.apply_event(&event);
        if let Some(seq) = timed_out_seq(&event)
            && self.shared.lock().commands.is_live()
        {
            self.timed_out.push(seq);
        }
        match event {
            RunEvent::Started(started) => self.start(position, *started)?,
            event if self.started => deliver_event(&mut self.shared.lock(), event),
            event => {
                let message = format!("it begins with `{}`", event.as_str());
                return Err(Blocked::Damaged { position, message });
            }
        }
        self.poll_ready()
    }

    fn start(&mut self, position: u64, mut started: RunStarted) -> Result<(), Blocked> {
        let damaged = |message: String| Err(Blocked::Damaged { position, message });
        if std::mem::replace(&mut self.started, true) {
            return damaged("the run starts a second time".into());
        }
        let origin = RunOrigin {
            parent: started.parent.take(),
            key: started.key.take(),
            seed: started.seed.take(),
            journal_limit: started.limit,
            keep_ms: started.keep_ms,
        };
        let program = {
            let mut state = self.shared.lock();
            (state.continued, state.seq) = (started.continued, started.seq);
            state.journal_limit = started.limit.unwrap_or(DEFAULT_MAX_JOURNAL_ENTRIES);
            state.keep_ms = started.keep_ms;
            state.rng = RunRng::for_run(origin.seed.as_ref().unwrap_or(&state.run), started.continued);
            started.signals.into_iter().for_each(|signal| receive_message(&mut state, signal, false));
            started.updates.into_iter().for_each(|update| receive_message(&mut state, update, true));
            state.program.clone()
        };
        self.origin = (origin != RunOrigin::default()).then(|| Box::new(origin));
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
                return Err(Blocked::Unreadable { what, message: error.to_string() });
            }
            Err(panic) => return Err(panicked(&self.shared, panic.as_ref())),
        }
        Ok(())
    }
}

/// Passes an event to the code. Ignores events that no wait expects: the wait was cancelled, or the
/// event is a duplicate.
fn deliver_event(state: &mut RunState, event: RunEvent) {
    match event {
        RunEvent::ActivityDone { seq, result } => activity_done(state, seq, result),
        RunEvent::TimerFired { seq } => {
            complete_wait(state, seq, |target| target == WaitTarget::Timer, WaitResult::Happened)
        }
        RunEvent::ChildStarted { seq, .. } => state.waits.child_started(seq),
        RunEvent::ChildDone { seq, result } => {
            // Any other end means that the child existed.
            if !matches!(result, ChildResult::Failed { .. }) {
                state.waits.child_started(seq);
            }
            complete_wait(
                state,
                seq,
                |target| matches!(target, WaitTarget::Child(_)),
                WaitResult::Child(result),
            );
        }
        RunEvent::SignalSent { seq, result } => {
            complete_wait(
                state,
                seq,
                |target| matches!(target, WaitTarget::SendSignal(_)),
                WaitResult::SignalSent(result),
            );
        }
        RunEvent::Signal(signal) => receive_message(state, signal, false),
        RunEvent::Update { id, name, payload } => {
            receive_message(state, StoredSignal { name, payload, id }, true)
        }
        RunEvent::CancelRequested { .. } => state.request_cancel(),
        RunEvent::Started(_) => {}
    }
}

/// The activity that exceeded its schedule-to-close timeout, if that is what the event reports.
fn timed_out_seq(event: &RunEvent) -> Option<u64> {
    let timed_out = FailureKind::TimedOut(Timeout::ScheduleToClose);
    match event {
        RunEvent::ActivityDone { seq, result: ActivityResult::Failed(failure) }
            if failure.kind == timed_out =>
        {
            Some(*seq)
        }
        _ => None,
    }
}

/// Completes the wait for an activity. Remote commands (child starts, signals) are jobs too, so
/// they report a dead job in the same way.
fn activity_done(state: &mut RunState, seq: u64, result: ActivityResult) {
    let result = match (state.waits.target(seq), result) {
        (Some(WaitTarget::Activity(_)), result) => WaitResult::Activity(result),
        (Some(WaitTarget::Child(_)), ActivityResult::Failed(ActivityFailure { message, .. })) => {
            WaitResult::Child(ChildResult::Failed { message })
        }
        (Some(WaitTarget::SendSignal(_)), ActivityResult::Failed(ActivityFailure { message, .. })) => {
            WaitResult::SignalSent(SignalDelivery::Failed { message })
        }
        _ => return,
    };
    state.waits.complete(seq, result);
}

fn complete_wait(state: &mut RunState, seq: u64, fits: impl Fn(WaitTarget) -> bool, result: WaitResult) {
    if state.waits.target(seq).is_some_and(fits) {
        state.waits.complete(seq, result);
    }
}

fn receive_message(state: &mut RunState, message: StoredSignal, is_update: bool) {
    let inbox = if is_update { &mut state.updates } else { &mut state.signals };
    if let Some((key, message)) = inbox.receive(message, |key| state.waits.is_open(key)) {
        state.waits.complete(key, WaitResult::Message(message));
    }
}
