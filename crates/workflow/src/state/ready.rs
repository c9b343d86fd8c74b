//! Who is to be polled next: tasks in the order in which they were woken, and within them the branches of joins.

use std::collections::VecDeque;

/// Who polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A task. The first is 0.
    Task(u32),
    /// A branch of a join.
    Branch { join: u32, index: u32 },
}

/// Who polled something, and in which task that is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Poller {
    place: Place,
    task: u32,
}

#[derive(Debug, Default)]
struct Task {
    /// Is in the queue.
    queued: bool,
    /// How many open waits it was the last to poll.
    waits: u32,
}

/// A join: its branches that are to be polled, in the order in which they were woken.
#[derive(Debug)]
struct Join {
    parent: Place,
    ready: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Ready {
    queue: VecDeque<u32>,
    tasks: Vec<Task>,
    idle_tasks: Vec<u32>,
    joins: Vec<Join>,
    idle_joins: Vec<u32>,
    /// Who is being polled.
    here: Poller,
}

impl Default for Ready {
    fn default() -> Self {
        let here = Poller { place: Place::Task(0), task: 0 };
        let (queue, tasks, joins) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { queue, tasks, idle_tasks: Vec::new(), joins, idle_joins: Vec::new(), here }
    }
}

impl Ready {
    /// Whoever is being polled polls an open wait, which `before` polled last.
    pub(super) fn polled(&mut self, before: Option<Poller>) -> Poller {
        self.forget(before);
        if let Some(task) = self.tasks.get_mut(self.here.task as usize) {
            task.waits += 1;
        }
        self.here
    }

    /// A wait that `poller` polled last has ended.
    pub(super) fn forget(&mut self, poller: Option<Poller>) {
        if let Some(task) = poller.and_then(|poller| self.tasks.get_mut(poller.task as usize)) {
            task.waits -= 1;
        }
    }

    pub(super) fn wake(&mut self, poller: Option<Poller>) {
        let mut place = poller.map(|poller| poller.place);
        while let Some(Place::Branch { join, index }) = place {
            let join = self.joins.get_mut(join as usize);
            place = join.map(|join| {
                join.ready.push(index);
                join.parent
            });
        }
        if let Some(Place::Task(task)) = place {
            self.enqueue(task);
        }
    }

    fn enqueue(&mut self, task: u32) {
        if let Some(known) = self.tasks.get_mut(task as usize)
            && !known.queued
        {
            known.queued = true;
            self.queue.push_back(task);
        }
    }

    /// A new task, to be polled after those that are ready.
    pub(crate) fn begin_task(&mut self) -> u32 {
        let task = self.idle_tasks.pop().unwrap_or_else(|| {
            self.tasks.push(Task::default());
            u32::try_from(self.tasks.len() - 1).unwrap_or(u32::MAX)
        });
        self.enqueue(task);
        task
    }

    pub(crate) fn end_task(&mut self, task: u32) {
        self.idle_tasks.push(task);
    }

    /// The task to be polled next, which is polled from now on.
    pub(crate) fn next_task(&mut self) -> Option<u32> {
        let task = self.queue.pop_front()?;
        if let Some(known) = self.tasks.get_mut(task as usize) {
            known.queued = false;
        }
        self.here = Poller { place: Place::Task(task), task };
        Some(task)
    }

    /// Whether a task waits for something of Tidemill's, or is to be polled again anyway.
    pub(crate) fn is_waiting(&self, task: u32) -> bool {
        self.tasks.get(task as usize).is_some_and(|task| task.waits > 0 || task.queued)
    }

    pub(crate) fn begin_join(&mut self) -> u32 {
        let parent = self.here.place;
        if let Some(idle) = self.idle_joins.pop() {
            self.joins[idle as usize].parent = parent;
            return idle;
        }
        self.joins.push(Join { parent, ready: Vec::new() });
        u32::try_from(self.joins.len() - 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn end_join(&mut self, join: u32) {
        self.joins[join as usize].ready = Vec::new();
        self.idle_joins.push(join);
    }

    /// The branches of a join that are to be polled. Whoever polls the join now is woken with its branches.
    pub(crate) fn branches(&mut self, join: u32) -> Vec<u32> {
        let parent = self.here.place;
        let join = &mut self.joins[join as usize];
        join.parent = parent;
        std::mem::take(&mut join.ready)
    }

    /// Polls go on in another place; returns the place to come back to.
    pub(crate) fn go(&mut self, place: Place) -> Place {
        std::mem::replace(&mut self.here.place, place)
    }
}
