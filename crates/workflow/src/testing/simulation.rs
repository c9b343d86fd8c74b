//! The simulation of a store and its workers, one action at a time.

use std::collections::BTreeMap;

use tidemill_core::workflow::{Json, RunEvent, RunId, RunStarted, Topic, UpdateResult};

use super::run::TestRun;
use super::schedule::{Schedule, Scheduled, ScheduledAction};
use super::world::TestWorld;
use crate::blocked::Blocked;
use crate::error::QueryError;
use crate::rng::RunRng;

pub(super) struct Simulation {
    pub(super) world: TestWorld,
    rng: Option<RunRng>,
    pub(super) now: i64,
    pub(super) schedule: Schedule,
    pub(super) runs: BTreeMap<RunId, TestRun>,
    pub(super) attributes: BTreeMap<Topic, Json>,
    pub(super) updates: BTreeMap<String, UpdateResult>,
    pub(super) answers: Vec<Result<Json, QueryError>>,
}

impl Simulation {
    pub(super) fn new(world: TestWorld) -> Self {
        Self {
            rng: world.rng,
            now: world.starts_at.0,
            world,
            schedule: Schedule::default(),
            runs: BTreeMap::new(),
            attributes: BTreeMap::new(),
            updates: BTreeMap::new(),
            answers: Vec::new(),
        }
    }

    /// Starts a run.
    pub(super) fn start(&mut self, id: &RunId, started: RunStarted) -> Result<(), String> {
        if self.runs.contains_key(id) {
            return Err(format!("run `{id}` exists already"));
        }
        let program = self.world.programs.find(&started.workflow, &started.version);
        let unknown = || format!("this world has no workflow `{}` {}", started.workflow, started.version);
        let program = program.ok_or_else(unknown)?.clone();
        let parent = started.parent.clone();
        let mut run = TestRun::new(id.clone(), program, parent);
        run.append(self.now, RunEvent::Started(Box::new(started)));
        self.runs.insert(id.clone(), run);
        self.schedule.add(self.now, id, ScheduledAction::Task);
        Ok(())
    }

    /// Runs every scheduled action.
    pub(super) fn run_all(&mut self) -> Result<(), Blocked> {
        while let Some((at, scheduled)) = self.schedule.next() {
            let run = scheduled.run.clone();
            self.apply(at, scheduled)?;
            self.run_tasks(&run)?;
        }
        Ok(())
    }

    fn apply(&mut self, at: i64, scheduled: Scheduled) -> Result<(), Blocked> {
        self.now = self.now.max(at);
        let Some(run) = self.runs.get_mut(&scheduled.run) else { return Ok(()) };
        match scheduled.action {
            ScheduledAction::Event(event) if run.end.is_none() => run.append(self.now, event),
            ScheduledAction::Event(_) | ScheduledAction::Task => {}
            ScheduledAction::Query(name, input) => {
                let answer = run.replayer()?.query(name, &input);
                self.answers.push(answer);
            }
        }
        Ok(())
    }

    /// Runs tasks of a run as long as it has new events.
    fn run_tasks(&mut self, id: &RunId) -> Result<(), Blocked> {
        while self.runs.get(id).is_some_and(|run| run.end.is_none() && run.has_new_events()) {
            self.run_task(id)?;
        }
        Ok(())
    }

    /// Runs a task. With a random seed, events may arrive before it starts or before it commits,
    /// and the worker may crash before it commits.
    fn run_task(&mut self, id: &RunId) -> Result<(), Blocked> {
        while self.random_below(4) == 0 && self.apply_next_for(id)? {}
        // Drawn in any case, so that a seed gives the same sequence whether the world crashes or
        // not.
        let crashes = self.random_below(3) == 0 || self.world.crashing;
        let Some(run) = self.runs.get_mut(id) else { return Ok(()) };
        if crashes {
            let _ = run.run_task(&mut self.world.mocks)?;
            run.crash();
        }
        let commit = run.run_task(&mut self.world.mocks)?;
        while self.random_below(4) == 0 && self.apply_next_for(id)? {}
        let Some(run) = self.runs.get_mut(id) else { return Ok(()) };
        run.commit(self.now, commit.clone());
        let cancelled = run.take_cancelled_children();
        self.apply_commit(id, commit, &cancelled);
        Ok(())
    }

    /// Runs the next action if it belongs to this run.
    fn apply_next_for(&mut self, id: &RunId) -> Result<bool, Blocked> {
        if !self.schedule.is_next_for(id) {
            return Ok(false);
        }
        let Some((at, scheduled)) = self.schedule.next() else { return Ok(false) };
        self.apply(at, scheduled).map(|()| true)
    }

    /// A number below `bound`. Without a seed it is always 1.
    pub(super) fn random_below(&mut self, bound: u64) -> u64 {
        self.rng.as_mut().map_or(1, |rng| rng.next_u64() % bound)
    }
}
