//! The ready queue: tasks in the order in which they were woken, and the woken branches of joins.

use std::collections::VecDeque;

/// The code that polls a future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollSource {
    /// A task. The first is 0.
    Task(u32),
    /// A branch of a join.
    Branch { join: u32, index: u32 },
}

/// The last poller of a wait, and its task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Poller {
    source: PollSource,
    task: u32,
}

#[derive(Debug, Default)]
struct TaskSlot {
    /// Whether it is in the queue.
    queued: bool,
    /// How many open waits it polled last.
    waits: u32,
}

/// A join and its woken branches, in the order in which they were woken.
#[derive(Debug)]
struct JoinSlot {
    parent: PollSource,
    ready: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct ReadyQueue {
    queue: VecDeque<u32>,
    tasks: Vec<TaskSlot>,
    free_tasks: Vec<u32>,
    joins: Vec<JoinSlot>,
    free_joins: Vec<u32>,
    /// The current poller.
    current: Poller,
}

impl Default for ReadyQueue {
    fn default() -> Self {
        let here = Poller { source: PollSource::Task(0), task: 0 };
        let (queue, tasks, joins) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { queue, tasks, free_tasks: Vec::new(), joins, free_joins: Vec::new(), current: here }
    }
}

impl ReadyQueue {
    /// Records that the current poller polls an open wait, which `before` polled last.
    pub(super) fn record_poll(&mut self, before: Option<Poller>) -> Poller {
        self.release(before);
        if let Some(task) = self.tasks.get_mut(self.current.task as usize) {
            task.waits += 1;
        }
        self.current
    }

    /// Removes an ended wait from the count of its last poller.
    pub(super) fn release(&mut self, poller: Option<Poller>) {
        if let Some(task) = poller.and_then(|poller| self.tasks.get_mut(poller.task as usize)) {
            task.waits -= 1;
        }
    }

    pub(super) fn wake(&mut self, poller: Option<Poller>) {
        let mut place = poller.map(|poller| poller.source);
        while let Some(PollSource::Branch { join, index }) = place {
            let join = self.joins.get_mut(join as usize);
            place = join.map(|join| {
                join.ready.push(index);
                join.parent
            });
        }
        if let Some(PollSource::Task(task)) = place {
            self.enqueue(task);
        }
    }

    fn enqueue(&mut self, task: u32) {
        if let Some(slot) = self.tasks.get_mut(task as usize)
            && !slot.queued
        {
            slot.queued = true;
            self.queue.push_back(task);
        }
    }

    /// Adds a task, to be polled after the ready ones.
    pub(crate) fn add_task(&mut self) -> u32 {
        let task = self.free_tasks.pop().unwrap_or_else(|| {
            self.tasks.push(TaskSlot::default());
            u32::try_from(self.tasks.len() - 1).unwrap_or(u32::MAX)
        });
        self.enqueue(task);
        task
    }

    pub(crate) fn remove_task(&mut self, task: u32) {
        self.free_tasks.push(task);
    }

    /// Takes the next task, which becomes the current poller.
    pub(crate) fn next_task(&mut self) -> Option<u32> {
        let task = self.queue.pop_front()?;
        if let Some(slot) = self.tasks.get_mut(task as usize) {
            slot.queued = false;
        }
        self.current = Poller { source: PollSource::Task(task), task };
        Some(task)
    }

    /// Whether a task has an open wait or is queued again.
    pub(crate) fn is_waiting(&self, task: u32) -> bool {
        self.tasks.get(task as usize).is_some_and(|task| task.waits > 0 || task.queued)
    }

    pub(crate) fn add_join(&mut self) -> u32 {
        let parent = self.current.source;
        if let Some(idle) = self.free_joins.pop() {
            self.joins[idle as usize].parent = parent;
            return idle;
        }
        self.joins.push(JoinSlot { parent, ready: Vec::new() });
        u32::try_from(self.joins.len() - 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn remove_join(&mut self, join: u32) {
        self.joins[join as usize].ready = Vec::new();
        self.free_joins.push(join);
    }

    /// Takes the woken branches of a join. The current poller becomes the join's parent.
    pub(crate) fn take_ready_branches(&mut self, join: u32) -> Vec<u32> {
        let parent = self.current.source;
        let join = &mut self.joins[join as usize];
        join.parent = parent;
        std::mem::take(&mut join.ready)
    }

    /// Changes the current poller and returns the previous one.
    pub(crate) fn enter(&mut self, place: PollSource) -> PollSource {
        std::mem::replace(&mut self.current.source, place)
    }
}
