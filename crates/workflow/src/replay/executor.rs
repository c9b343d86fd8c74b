//! The executor: polls the tasks of one run in the order in which they were woken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use tidemill_core::workflow::Json;

use crate::blocked::Blocked;
use crate::error::WorkflowError;
use crate::foreign_await::{Detection, ForeignWakeDetector};
use crate::program::RootFuture;
use crate::state::{SharedState, TaskFuture};

/// The task of the workflow's own function.
const ROOT_TASK: u32 = 0;

#[derive(Default)]
pub(super) struct Executor {
    root: Option<RootFuture>,
    /// Task `n` is at `n - 1`.
    spawned: Vec<Option<TaskFuture>>,
}

type RootOutput = Result<Json, WorkflowError>;

impl Executor {
    pub(super) fn start(&mut self, shared: &SharedState, root: RootFuture) {
        self.root = Some(root);
        shared.lock().waits.ready.add_task();
    }

    /// Polls ready tasks until none is left or the workflow's function has returned.
    pub(super) fn run(
        &mut self,
        shared: &SharedState,
        detector: &ForeignWakeDetector,
    ) -> Result<Option<RootOutput>, Blocked> {
        while let Some(task) = next_task(shared)? {
            let polled = catch_unwind(AssertUnwindSafe(|| self.poll(task, detector)));
            self.take_spawned(shared);
            match polled {
                Err(panic) => return Err(panicked(shared, panic.as_ref())),
                Ok(Poll::Pending) => detect_foreign_await(shared, detector, task),
                Ok(Poll::Ready(Some(output))) => return check_blocked(shared).map(|()| Some(output)),
                Ok(Poll::Ready(None)) => self.remove(shared, task),
            }
        }
        Ok(None)
    }

    /// Polls a task. Only the workflow's own function has an output.
    fn poll(&mut self, task: u32, detector: &ForeignWakeDetector) -> Poll<Option<RootOutput>> {
        let mut context = Context::from_waker(detector.waker());
        if task == ROOT_TASK {
            let root = self.root.as_mut();
            return root.map_or(Poll::Ready(None), |root| root.as_mut().poll(&mut context).map(Some));
        }
        match self.spawned.get_mut(task as usize - 1) {
            Some(Some(task)) => task.as_mut().poll(&mut context).map(|()| None),
            _ => Poll::Ready(None),
        }
    }

    /// Takes over the tasks that the code has spawned.
    fn take_spawned(&mut self, shared: &SharedState) {
        let spawned = std::mem::take(&mut shared.lock().spawned);
        for (task, future) in spawned {
            let index = task as usize - 1;
            if self.spawned.len() <= index {
                self.spawned.resize_with(index + 1, || None);
            }
            self.spawned[index] = Some(future);
        }
    }

    fn remove(&mut self, shared: &SharedState, task: u32) {
        let ended = self.spawned.get_mut((task as usize).wrapping_sub(1)).and_then(Option::take);
        if ended.is_some() {
            // Its captures may hold a `Ctx`, whose drop takes the lock. The number is free
            // afterwards.
            drop(ended);
            shared.lock().waits.ready.remove_task(task);
        }
    }

    /// Drops every task, the workflow's own function first. Panics while dropping are ignored.
    pub(super) fn drop_all(&mut self) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self.root.take())));
        for task in std::mem::take(&mut self.spawned) {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
        }
    }
}

/// The next task to poll, unless the run is blocked.
fn next_task(shared: &SharedState) -> Result<Option<u32>, Blocked> {
    check_blocked(shared)?;
    Ok(shared.lock().waits.ready.next_task())
}

pub(super) fn check_blocked(shared: &SharedState) -> Result<(), Blocked> {
    shared.lock().blocked.clone().map_or(Ok(()), Err)
}

/// Blocks the run if a pending task waits for anything other than its `Ctx`.
fn detect_foreign_await(shared: &SharedState, detector: &ForeignWakeDetector, task: u32) {
    let mut state = shared.lock();
    if detector.is_triggered() {
        state.block_foreign_await(Detection::KeptWaker);
    } else if !state.waits.ready.is_waiting(task) {
        state.block_foreign_await(Detection::NothingAwaited);
    }
}

pub(super) fn panicked(shared: &SharedState, panic: &(dyn std::any::Any + Send)) -> Blocked {
    let mut state = shared.lock();
    // A side effect may have panicked.
    state.end_read_only();
    Blocked::Panicked { workflow: state.program.name().clone(), message: panic_message(panic) }
}

/// The message of a panic.
pub(super) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}
