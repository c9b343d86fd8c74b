//! A test world in motion: does what a store and its workers would do, one thing at a time.

use std::collections::BTreeMap;

use tidemill_core::workflow::{Json, RunEvent, RunId, RunStarted, Topic, UpdateResult};

use super::agenda::{Agenda, Due, Happening};
use super::run::Run;
use super::world::TestWorld;
use crate::dice::Dice;
use crate::error::QueryError;
use crate::halt::Halt;

pub(super) struct Play {
    pub(super) world: TestWorld,
    chance: Option<Dice>,
    pub(super) now: i64,
    pub(super) agenda: Agenda,
    pub(super) runs: BTreeMap<RunId, Run>,
    pub(super) attributes: BTreeMap<Topic, Json>,
    pub(super) updates: BTreeMap<String, UpdateResult>,
    pub(super) answers: Vec<Result<Json, QueryError>>,
}

impl Play {
    pub(super) fn new(world: TestWorld) -> Self {
        Self {
            chance: world.chance,
            now: world.begins.0,
            world,
            agenda: Agenda::default(),
            runs: BTreeMap::new(),
            attributes: BTreeMap::new(),
            updates: BTreeMap::new(),
            answers: Vec::new(),
        }
    }

    /// Starts a run, if it can be.
    pub(super) fn start(&mut self, id: &RunId, started: RunStarted) -> Result<(), String> {
        if self.runs.contains_key(id) {
            return Err(format!("run `{id}` exists already"));
        }
        let program = self.world.programs.find(&started.workflow, &started.version);
        let unknown = || format!("this world has no workflow `{}` {}", started.workflow, started.version);
        let program = program.ok_or_else(unknown)?.clone();
        let parent = started.parent.clone();
        let mut run = Run::new(id.clone(), program, parent);
        run.append(self.now, RunEvent::Started(Box::new(started)));
        self.runs.insert(id.clone(), run);
        self.agenda.plan_any(self.now, id, Due::Task);
        Ok(())
    }

    /// Lets everything happen that will.
    pub(super) fn until_quiet(&mut self) -> Result<(), Halt> {
        while let Some((at, happening)) = self.agenda.next() {
            let run = happening.run.clone();
            self.happen(at, happening)?;
            self.tasks(&run)?;
        }
        Ok(())
    }

    fn happen(&mut self, at: i64, happening: Happening) -> Result<(), Halt> {
        self.now = self.now.max(at);
        let Some(run) = self.runs.get_mut(&happening.run) else { return Ok(()) };
        match happening.what {
            Due::Event(event) if run.end.is_none() => run.append(self.now, event),
            Due::Event(_) | Due::Task => {}
            Due::Query(name, input) => {
                let answer = run.machine()?.query(name, &input);
                self.answers.push(answer);
            }
        }
        Ok(())
    }

    /// Workers take the run's tasks as long as it has one.
    fn tasks(&mut self, id: &RunId) -> Result<(), Halt> {
        while self.runs.get(id).is_some_and(|run| run.end.is_none() && run.has_news()) {
            self.task(id)?;
        }
        Ok(())
    }

    /// A worker takes a run's task. Depending on chance, more comes in before it does, it dies before it commits, or
    /// more comes in before it commits.
    fn task(&mut self, id: &RunId) -> Result<(), Halt> {
        while self.roll(4) == 0 && self.next_happens_to(id)? {}
        // Rolled in any case: a world has the same luck whether it crashes or not.
        let crashes = self.roll(3) == 0 || self.world.crashing;
        let Some(run) = self.runs.get_mut(id) else { return Ok(()) };
        if crashes {
            let _ = run.task(&mut self.world.mocks)?;
            run.crash();
        }
        let commit = run.task(&mut self.world.mocks)?;
        while self.roll(4) == 0 && self.next_happens_to(id)? {}
        let Some(run) = self.runs.get_mut(id) else { return Ok(()) };
        run.commit(self.now, commit.clone());
        let given_up = run.take_given_up();
        self.obey(id, commit, &given_up);
        Ok(())
    }

    /// If what happens next happens to this run, it happens.
    fn next_happens_to(&mut self, id: &RunId) -> Result<bool, Halt> {
        if !self.agenda.is_next(id) {
            return Ok(false);
        }
        let Some((at, happening)) = self.agenda.next() else { return Ok(false) };
        self.happen(at, happening).map(|()| true)
    }

    /// A number below `sides`; without chance never 0.
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.chance.as_mut().map_or(1, |chance| chance.roll() % sides)
    }
}
