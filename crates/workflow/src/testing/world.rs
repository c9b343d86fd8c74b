//! What a test world is made of.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_core::Timestamp;
use tidemill_core::clock::millis;
use tidemill_core::workflow::{Json, RunEvent, RunId, RunStarted, StoredSignal, Topic};

use super::agenda::Due;
use super::ended::Ended;
use super::mock::Mocks;
use super::play::Play;
use crate::ctx::Ctx;
use crate::definition::{Activity, Query, Signal, Update, Workflow};
use crate::dice::Dice;
use crate::ending::WorkflowError;
use crate::halt::Halt;
use crate::program::{Program, Programs};

/// The moment at which every world begins: 2025-01-01.
const BEGINNING: Timestamp = Timestamp(1_735_689_600_000);

/// A world in memory that a workflow runs in, to its end, without waiting.
#[must_use = "nothing runs before `run`"]
pub struct TestWorld {
    pub(super) programs: Programs,
    pub(super) mocks: Mocks,
    pub(super) begins: Timestamp,
    pub(super) crashing: bool,
    pub(super) chance: Option<Dice>,
    pub(super) limit: Option<u64>,
    /// What comes from outside to the run that is tested, and when.
    plan: Vec<(i64, Due)>,
}

impl Default for TestWorld {
    fn default() -> Self {
        Self {
            programs: Programs::new(),
            mocks: Mocks::default(),
            begins: BEGINNING,
            crashing: false,
            chance: None,
            limit: None,
            plan: Vec::new(),
        }
    }
}

impl TestWorld {
    /// A world in which nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a workflow known: the one that is tested, or its children.
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

    /// Says what an activity does, remote or local. It is tried again as its policy says.
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

    /// Says what an activity does, and how long each attempt takes.
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

    /// Sends a signal to the run that is tested, this long after it was started.
    pub fn signal_at<T: Serialize>(self, after: Duration, signal: &Signal<T>, payload: &T) -> Self {
        let id = format!("signal-{}", self.plan.len());
        let signal = named(signal.name(), payload, id).map(RunEvent::Signal);
        self.event_at(after, signal)
    }

    /// Sends an update to the run that is tested; [`Ended::updates`] has the answer under `id`.
    pub fn update_at<I: Serialize, O>(
        self,
        after: Duration,
        id: &str,
        update: &Update<I, O>,
        input: &I,
    ) -> Self {
        let update = named(update.name(), input, id.to_owned());
        let event = update.map(|StoredSignal { name, payload, id }| RunEvent::Update { id, name, payload });
        self.event_at(after, event)
    }

    /// Asks the run that is tested to cancel.
    pub fn cancel_at(self, after: Duration) -> Self {
        self.event_at(after, Some(RunEvent::CancelRequested { reason: None }))
    }

    /// Asks the run that is tested; [`Ended::answers`] has the answers in their order.
    pub fn query_at<I: Serialize, O>(mut self, after: Duration, query: &Query<I, O>, input: &I) -> Self {
        let input = Json::from_value(input).unwrap_or_else(|_| Json::null());
        self.plan.push((millis(after), Due::Query(query.name(), input)));
        self
    }

    fn event_at(mut self, after: Duration, event: Option<RunEvent>) -> Self {
        self.plan.extend(event.map(|event| (millis(after), Due::Event(event))));
        self
    }

    /// Lets the worker die before every commit, so that every task begins with a replay.
    pub fn crashing(mut self) -> Self {
        self.crashing = true;
        self
    }

    /// Leaves to chance how long activities take, what comes while a task is running, and when the worker dies. The
    /// same seed gives the same world.
    pub fn chance(mut self, seed: u64) -> Self {
        self.chance = Some(Dice::new(seed));
        self
    }

    /// Lets journals grow to this many entries.
    pub fn limit(mut self, entries: u64) -> Self {
        self.limit = Some(entries);
        self
    }

    /// The programs this world knows.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Runs a workflow until nothing happens any more, to its end or to where it waits for what never comes.
    pub fn run<I: Serialize, O>(mut self, workflow: &Workflow<I, O>, input: I) -> Result<Ended<O>, Halt> {
        let plan = std::mem::take(&mut self.plan);
        let unfit = |message: String| Halt::Unreadable { what: "what the test begins with".into(), message };
        let mut started = started(workflow, &input).map_err(|error| unfit(error.to_string()))?;
        started.limit = self.limit;
        let run = RunId::new("test").map_err(|error| unfit(error.to_string()))?;
        let mut play = Play::new(self);
        play.start(&run, started).map_err(unfit)?;
        let begin = play.now;
        for (after, what) in plan {
            play.agenda.plan_any(begin.saturating_add(after), &run, what);
        }
        play.until_quiet()?;
        Ok(Ended::new(&run, play))
    }
}

fn started<I: Serialize, O>(
    workflow: &Workflow<I, O>,
    input: &I,
) -> Result<RunStarted, Box<dyn std::error::Error>> {
    Ok(RunStarted::new(workflow.name().parse()?, workflow.version_text().parse()?, Json::from_value(input)?))
}

/// A message. Names are checked where they are declared; a payload that cannot be written is never sent.
fn named<T: Serialize>(name: &str, payload: &T, id: String) -> Option<StoredSignal> {
    Some(StoredSignal { name: Topic::new(name).ok()?, payload: Json::from_value(payload).ok()?, id })
}
