//! Runs that stay in memory between their tasks, so that the next one begins where the last ended.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_core::store::Verdict;
use tidemill_core::store::runs::RunPosition;
use tidemill_core::workflow::{CommitId, RunId};
use tokio::sync::Notify;

use crate::machine::Machine;

/// How long a task waits to hear whether the commit before it was accepted. It was, or there would be no task: what is
/// missing is only that this process knows. Beyond that the run is rebuilt.
const PATIENCE: Duration = Duration::from_secs(1);

/// The machines of runs, the least recently used of which go first.
#[derive(Debug)]
pub(super) struct Cache {
    shelf: Mutex<Shelf>,
    /// Told whenever a commit was accepted or refused.
    settled: Notify,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Shelf {
    slots: HashMap<RunId, Slot>,
    /// The runs by when they were put here.
    order: BTreeMap<u64, RunId>,
    /// The number of the last that was put here.
    last: u64,
}

#[derive(Debug)]
struct Slot {
    machine: Box<Machine>,
    /// When it was put here.
    number: u64,
    /// The commit that it made last. After the end of a run another one may have its id, with other commits.
    commit: CommitId,
    /// Whether its last commit was accepted. Until then nobody may use it: if it was refused, another worker may have
    /// come as far as this one, by another way.
    settled: bool,
}

impl Shelf {
    fn put(
        &mut self,
        run: &RunId,
        (machine, commit): (Box<Machine>, CommitId),
        settled: bool,
    ) -> (u64, Option<Slot>) {
        self.last += 1;
        let number = self.last;
        let before = self.slots.insert(run.clone(), Slot { machine, number, commit, settled });
        if let Some(before) = &before {
            self.order.remove(&before.number);
        }
        self.order.insert(number, run.clone());
        (number, before)
    }

    fn remove(&mut self, run: &RunId) -> Option<Slot> {
        let slot = self.slots.remove(run)?;
        self.order.remove(&slot.number);
        Some(slot)
    }

    /// What is beyond the capacity.
    fn overflow(&mut self, capacity: usize) -> Option<Slot> {
        let (_, run) = (self.slots.len() > capacity).then(|| self.order.pop_first()).flatten()?;
        self.slots.remove(&run)
    }
}

/// What a look into the cache found.
enum Look {
    Nothing,
    Found(Box<Machine>),
    /// There is one whose commit is not known to be accepted yet.
    Unsettled,
}

impl Cache {
    pub(super) fn new(capacity: usize) -> Self {
        Self { shelf: Mutex::default(), settled: Notify::new(), capacity }
    }

    /// Takes out the machine of a run that is at this position. One that has come elsewhere is of no use any more.
    pub(super) async fn take(&self, run: &RunId, at: RunPosition) -> Option<Box<Machine>> {
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                // Listens before it looks, so that word in between is not missed.
                let mut told = std::pin::pin!(self.settled.notified());
                told.as_mut().enable();
                match self.look(run, at) {
                    Look::Found(machine) => return Some(machine),
                    Look::Nothing => return None,
                    Look::Unsettled => told.await,
                }
            }
        });
        found.await.ok().flatten()
    }

    /// The same without waiting.
    pub(super) fn take_now(&self, run: &RunId, at: RunPosition) -> Option<Box<Machine>> {
        match self.look(run, at) {
            Look::Found(machine) => Some(machine),
            Look::Nothing | Look::Unsettled => None,
        }
    }

    fn look(&self, run: &RunId, at: RunPosition) -> Look {
        let mut shelf = self.lock();
        match shelf.slots.get(run) {
            None => return Look::Nothing,
            Some(slot) if !slot.settled => return Look::Unsettled,
            Some(_) => {}
        }
        let Some(slot) = shelf.remove(run) else { return Look::Nothing };
        // What it holds may do anything when it is dropped.
        drop(shelf);
        let is_it = Some(slot.commit) == at.last_commit && slot.machine.consumed() == at.cursor;
        if is_it { Look::Found(slot.machine) } else { Look::Nothing }
    }

    /// Puts a machine back that is known to be where the journal is, unless a newer one has come meanwhile.
    pub(super) fn put(&self, run: &RunId, machine: Box<Machine>, commit: CommitId) {
        if !self.lock().slots.contains_key(run) {
            self.keep(run, (machine, commit), true);
        }
    }

    /// Keeps a machine whose commit is on its way.
    pub(super) fn lend(self: &Arc<Self>, run: &RunId, machine: Box<Machine>, commit: CommitId) -> Ticket {
        let number = self.keep(run, (machine, commit), false);
        Ticket { cache: self.clone(), run: run.clone(), number }
    }

    fn keep(&self, run: &RunId, machine: (Box<Machine>, CommitId), settled: bool) -> u64 {
        if self.capacity == 0 {
            return 0;
        }
        let mut shelf = self.lock();
        let (number, replaced) = shelf.put(run, machine, settled);
        let evicted = shelf.overflow(self.capacity);
        drop(shelf);
        drop((replaced, evicted));
        number
    }

    /// Word has come: the machine may be used from now on, or never.
    fn settle(&self, ticket: &Ticket, verdict: Verdict) {
        let mut shelf = self.lock();
        let is_it = |slot: &&mut Slot| slot.number == ticket.number && !slot.settled;
        let Some(slot) = shelf.slots.get_mut(&ticket.run).filter(is_it) else { return };
        let refused = match verdict {
            Verdict::Accepted => {
                slot.settled = true;
                None
            }
            Verdict::LeaseLost | Verdict::Unknown => shelf.remove(&ticket.run),
        };
        drop(shelf);
        drop(refused);
        self.settled.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        // Nothing in here can panic half-way through a change.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A machine whose commit is on its way. Dropped without word, the commit counts as refused.
#[derive(Debug)]
pub(super) struct Ticket {
    cache: Arc<Cache>,
    run: RunId,
    number: u64,
}

impl Ticket {
    pub(super) fn settled(self, verdict: Verdict) {
        self.cache.settle(&self, verdict);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.cache.settle(self, Verdict::LeaseLost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ctx, Program, Workflow};

    const NONE: Workflow<(), ()> = Workflow::new("none");

    const COMMIT: CommitId = CommitId::from_number(7);

    fn at(cursor: u64) -> RunPosition {
        RunPosition { cursor, last_commit: Some(COMMIT) }
    }

    fn machine(consumed: u64) -> Box<Machine> {
        let program = Program::new(&NONE, |_: Ctx, ()| async { Ok(()) });
        Box::new(Machine::new(&program, run("a")).base(consumed))
    }

    fn run(name: &str) -> RunId {
        name.parse().unwrap()
    }

    #[tokio::test]
    async fn a_machine_is_of_use_only_where_the_journal_is() {
        let cache = Arc::new(Cache::new(2));
        cache.put(&run("a"), machine(3), COMMIT);
        assert!(cache.take(&run("a"), at(2)).await.is_none());
        assert!(cache.take(&run("a"), at(3)).await.is_none(), "it has been dropped");
        cache.put(&run("a"), machine(3), COMMIT);
        let other = RunPosition { last_commit: Some(CommitId::from_number(8)), ..at(3) };
        assert!(cache.take(&run("a"), other).await.is_none(), "another commit came there");
        cache.put(&run("a"), machine(3), COMMIT);
        assert!(cache.take(&run("a"), at(3)).await.is_some());
    }

    #[tokio::test]
    async fn the_one_that_was_used_least_recently_goes() {
        let cache = Arc::new(Cache::new(2));
        for name in ["a", "b"] {
            cache.put(&run(name), machine(1), COMMIT);
        }
        let used = cache.take(&run("a"), at(1)).await.unwrap();
        cache.put(&run("a"), used, COMMIT);
        cache.put(&run("c"), machine(1), COMMIT);
        assert!(cache.take(&run("b"), at(1)).await.is_none());
        assert!(cache.take(&run("a"), at(1)).await.is_some() && cache.take(&run("c"), at(1)).await.is_some());
        let off = Arc::new(Cache::new(0));
        off.put(&run("a"), machine(1), COMMIT);
        assert!(off.take(&run("a"), at(1)).await.is_none());
    }

    #[tokio::test]
    async fn the_next_task_waits_for_word_of_the_commit_before() {
        let cache = Arc::new(Cache::new(2));
        let ticket = cache.lend(&run("a"), machine(1), COMMIT);
        let id = run("a");
        let (found, ()) = tokio::join!(cache.take(&id, at(1)), async {
            tokio::task::yield_now().await;
            ticket.settled(Verdict::Accepted);
        });
        assert!(found.is_some());
        let refused = cache.lend(&run("a"), machine(1), COMMIT);
        refused.settled(Verdict::LeaseLost);
        assert!(cache.take(&run("a"), at(1)).await.is_none());
        drop(cache.lend(&run("a"), machine(1), COMMIT));
        assert!(cache.take(&run("a"), at(1)).await.is_none());
    }
}
