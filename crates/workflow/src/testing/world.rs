//! The configuration of a simulation.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::Timestamp;
use tidemill_core::clock::millis;
use tidemill_core::workflow::{Json, RunEvent, RunId, RunStarted, StoredSignal, Topic};

use super::mock::Mocks;
use super::outcome::TestOutcome;
use super::schedule::ScheduledAction;
use super::simulation::Simulation;
use crate::blocked::Blocked;
use crate::ctx::Ctx;
use crate::definition::{Activity, Query, Signal, Update, Workflow};
use crate::error::WorkflowError;
use crate::program::{Program, Programs};
use crate::rng::RunRng;

/// The time at which every simulation starts: 2025-01-01.
const START_TIME: Timestamp = Timestamp(1_735_689_600_000);

/// An in-memory world that runs a workflow to its end without waiting.
#[must_use = "nothing runs before `run`"]
pub struct TestWorld {
    pub(super) programs: Programs,
    pub(super) mocks: Mocks,
    pub(super) starts_at: Timestamp,
    pub(super) crashing: bool,
    pub(super) rng: Option<RunRng>,
    pub(super) journal_limit: Option<u64>,
    /// The messages from outside to the tested run, and their times.
    scheduled: Vec<(i64, ScheduledAction)>,
}

impl Default for TestWorld {
    fn default() -> Self {
        Self {
            programs: Programs::new(),
            mocks: Mocks::default(),
            starts_at: START_TIME,
            crashing: false,
            rng: None,
            journal_limit: None,
            scheduled: Vec::new(),
        }
    }
}

impl TestWorld {
    /// An empty world.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a workflow: the tested one or one of its children.
    pub fn workflow<I, O, C, F>(mut self, workflow: &Workflow<I, O>, code: C) -> Self
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        C: Fn(Ctx, I) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, WorkflowError>> + Send + 'static,
    {
        self.programs.add(Program::new(workflow, code));
        self
    }

    /// Registers an activity, remote or local. It is retried by its policy.
    pub fn activity<I, O, E>(
        self,
        activity: &Activity<I, O>,
        code: impl FnMut(I) -> Result<O, E> + Send + 'static,
    ) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
        E: Display,
    {
        self.slow_activity(activity, Duration::ZERO, code)
    }

    /// Registers an activity whose attempts take this long.
    pub fn slow_activity<I, O, E>(
        mut self,
        activity: &Activity<I, O>,
        takes: Duration,
        code: impl FnMut(I) -> Result<O, E> + Send + 'static,
    ) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
        E: Display,
    {
        self.mocks.add(activity, takes, code);
        self
    }

    /// Sends a signal to the tested run, this long after its start.
    pub fn signal_at<T: Serialize>(self, after: Duration, signal: &Signal<T>, payload: &T) -> Self {
        let id = format!("signal-{}", self.scheduled.len());
        let signal = stored_signal(signal.name(), payload, id).map(RunEvent::Signal);
        self.event_at(after, signal)
    }

    /// Sends an update to the tested run. [`TestOutcome::updates`] has the answer under `id`.
    pub fn update_at<I: Serialize, O>(
        self,
        after: Duration,
        id: &str,
        update: &Update<I, O>,
        input: &I,
    ) -> Self {
        let update = stored_signal(update.name(), input, id.to_owned());
        let event = update.map(|StoredSignal { name, payload, id }| RunEvent::Update { id, name, payload });
        self.event_at(after, event)
    }

    /// Asks the tested run to cancel.
    pub fn cancel_at(self, after: Duration) -> Self {
        self.event_at(after, Some(RunEvent::CancelRequested { reason: None }))
    }

    /// Queries the tested run. [`TestOutcome::answers`] has the answers in order.
    pub fn query_at<I: Serialize, O>(mut self, after: Duration, query: &Query<I, O>, input: &I) -> Self {
        let input = Json::from_value(input).unwrap_or_else(|_| Json::null());
        self.scheduled.push((millis(after), ScheduledAction::Query(query.name(), input)));
        self
    }

    fn event_at(mut self, after: Duration, event: Option<RunEvent>) -> Self {
        self.scheduled.extend(event.map(|event| (millis(after), ScheduledAction::Event(event))));
        self
    }

    /// Crashes the worker before every commit, so that every task begins with a replay.
    pub fn crashing(mut self) -> Self {
        self.crashing = true;
        self
    }

    /// Randomizes the durations of activities, the arrival of events during a task, and worker
    /// crashes. The same seed gives the same simulation.
    pub fn randomized(mut self, seed: u64) -> Self {
        self.rng = Some(RunRng::new(seed));
        self
    }

    /// Sets the maximum length of journals, in entries.
    pub fn journal_limit(mut self, entries: u64) -> Self {
        self.journal_limit = Some(entries);
        self
    }

    /// The registered programs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Runs a workflow until nothing is scheduled: to its end, or to where it waits forever.
    pub fn run<I: Serialize, O>(
        mut self,
        workflow: &Workflow<I, O>,
        input: I,
    ) -> Result<TestOutcome<O>, Blocked> {
        let scheduled = std::mem::take(&mut self.scheduled);
        let invalid =
            |message: String| Blocked::Unreadable { what: "what the test begins with".into(), message };
        let mut started = started(workflow, &input).map_err(|error| invalid(error.to_string()))?;
        started.limit = self.journal_limit;
        let run = RunId::new("test").map_err(|error| invalid(error.to_string()))?;
        let mut simulation = Simulation::new(self);
        simulation.start(&run, started).map_err(invalid)?;
        let begin = simulation.now;
        for (after, action) in scheduled {
            simulation.schedule.add(begin.saturating_add(after), &run, action);
        }
        simulation.run_all()?;
        Ok(TestOutcome::new(&run, simulation))
    }
}

fn started<I: Serialize, O>(
    workflow: &Workflow<I, O>,
    input: &I,
) -> Result<RunStarted, Box<dyn std::error::Error>> {
    Ok(RunStarted::new(workflow.name().parse()?, workflow.version_text().parse()?, Json::from_value(input)?))
}

/// A message, or `None` if it cannot be serialized. Names are checked where they are declared.
fn stored_signal<T: Serialize>(name: &str, payload: &T, id: String) -> Option<StoredSignal> {
    Some(StoredSignal { name: Topic::new(name).ok()?, payload: Json::from_value(payload).ok()?, id })
}
