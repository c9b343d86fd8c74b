//! The executor: polls the tasks of one run, in the order in which they were woken, and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use tidemill_core::workflow::Json;

use crate::ending::WorkflowError;
use crate::foreign::{Lure, Trace};
use crate::halt::Halt;
use crate::program::RootFuture;
use crate::state::{Shared, TaskFuture};

/// The task that is the workflow's own function.
const ROOT: u32 = 0;

#[derive(Default)]
pub(super) struct Executor {
    root: Option<RootFuture>,
    /// Task `n` is at `n - 1`.
    others: Vec<Option<TaskFuture>>,
}

type Output = Result<Json, WorkflowError>;

impl Executor {
    pub(super) fn start(&mut self, shared: &Shared, root: RootFuture) {
        self.root = Some(root);
        shared.lock().waits.ready.begin_task();
    }

    /// Polls what is ready until nothing is, or the workflow's function has returned.
    pub(super) fn run(&mut self, shared: &Shared, lure: &Lure) -> Result<Option<Output>, Halt> {
        while let Some(task) = next(shared)? {
            let polled = catch_unwind(AssertUnwindSafe(|| self.poll(task, lure)));
            self.adopt(shared);
            match polled {
                Err(panic) => return Err(panicked(shared, panic.as_ref())),
                Ok(Poll::Pending) => check(shared, lure, task),
                Ok(Poll::Ready(Some(output))) => return halted(shared).map(|()| Some(output)),
                Ok(Poll::Ready(None)) => self.end(shared, task),
            }
        }
        Ok(None)
    }

    /// Polls a task; the workflow's own function has an output.
    fn poll(&mut self, task: u32, lure: &Lure) -> Poll<Option<Output>> {
        let mut context = Context::from_waker(lure.waker());
        if task == ROOT {
            let root = self.root.as_mut();
            return root.map_or(Poll::Ready(None), |root| root.as_mut().poll(&mut context).map(Some));
        }
        match self.others.get_mut(task as usize - 1) {
            Some(Some(other)) => other.as_mut().poll(&mut context).map(|()| None),
            _ => Poll::Ready(None),
        }
    }

    /// Takes over the tasks that were spawned.
    fn adopt(&mut self, shared: &Shared) {
        let spawned = std::mem::take(&mut shared.lock().spawned);
        for (task, future) in spawned {
            let index = task as usize - 1;
            if self.others.len() <= index {
                self.others.resize_with(index + 1, || None);
            }
            self.others[index] = Some(future);
        }
    }

    fn end(&mut self, shared: &Shared, task: u32) {
        let ended = self.others.get_mut((task as usize).wrapping_sub(1)).and_then(Option::take);
        if ended.is_some() {
            // What it captured may hold a `Ctx`; only then is its number free.
            drop(ended);
            shared.lock().waits.ready.end_task(task);
        }
    }

    /// Drops every task, the workflow's own function first. A panic while dropping changes nothing any more.
    pub(super) fn drop_all(&mut self) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self.root.take())));
        for other in std::mem::take(&mut self.others) {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(other)));
        }
    }
}

/// The task to be polled next, unless the run has halted.
fn next(shared: &Shared) -> Result<Option<u32>, Halt> {
    halted(shared)?;
    Ok(shared.lock().waits.ready.next_task())
}

pub(super) fn halted(shared: &Shared) -> Result<(), Halt> {
    shared.lock().halt.clone().map_or(Ok(()), Err)
}

/// A task that waits must wait for something of Tidemill's, and for nothing else.
fn check(shared: &Shared, lure: &Lure, task: u32) {
    let mut state = shared.lock();
    if lure.is_taken() {
        state.estrange(Trace::KeptWaker);
    } else if !state.waits.ready.is_waiting(task) {
        state.estrange(Trace::NothingAwaited);
    }
}

pub(super) fn panicked(shared: &Shared, panic: &(dyn std::any::Any + Send)) -> Halt {
    let mut state = shared.lock();
    // A side effect may have panicked.
    state.unbar();
    Halt::Panicked { workflow: state.program.name().clone(), message: message(panic) }
}

/// What a panic said.
pub(super) fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}
