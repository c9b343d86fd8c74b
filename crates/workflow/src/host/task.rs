//! One task of a run: from where it was to its next commit.

use std::sync::Arc;

use tidemill_core::dead_letter::{DeathCause, DeathReason};
use tidemill_core::store::runs::RunPosition;
use tidemill_core::workflow::{Commit, PositionedEvent, RunId};
use tidemill_core::{Envelope, Error, Outcome};
use tidemill_worker::JobContext;

use super::Host;
use super::cold::place;
use super::commit::written;
use super::setback::Setback;
use crate::machine::{Advance, Machine};
use crate::program::Program;
use crate::wire::{Place, Task};

impl Host {
    /// Runs a task; what keeps it from being run puts it back.
    pub(super) async fn task(self: &Arc<Self>, envelope: &Envelope, cx: &JobContext) -> Outcome {
        let task = match Task::read(envelope) {
            Ok(task) => task,
            Err(error) => return dead(error.to_string()),
        };
        let done = match envelope.id().run().filter(|_| envelope.id().is_task()) {
            Some(run) => self.dispatch(task, &run, cx).await,
            None => begin(envelope, &task, cx).await,
        };
        done.unwrap_or_else(|setback| setback.postpone(envelope))
    }

    async fn dispatch(
        self: &Arc<Self>,
        task: Task,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<Outcome, Setback> {
        let Some(program) = self.programs.find(&task.workflow, &task.version) else {
            let Task { workflow, version, .. } = task;
            return Err(Setback::NoProgram { workflow, version });
        };
        match self.carry_on(program, task, run, cx).await {
            Err(Setback::Halted(halt)) => {
                Err(Setback::Halted(place(halt, program, run, &**cx.client().store()).await))
            }
            carried_on => carried_on,
        }
    }

    async fn carry_on(
        self: &Arc<Self>,
        program: &Program,
        task: Task,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<Outcome, Setback> {
        let store = cx.client().store().clone();
        let (machine, news) = match self.warm(program, run, &task).await {
            Some(machine) => (Some(machine), task.news),
            // The journal has the news too. What came since is for the next task: this one would have no end of it.
            None => {
                let upto = task.news.last().map_or(u64::MAX, |last| last.position);
                (self.rebuild(program, run, upto, &*store).await?, Vec::new())
            }
        };
        // A run that was removed, or has ended, has no tasks.
        let Some(mut machine) = machine.filter(|machine| machine.end().is_none()) else {
            return Ok(Outcome::Tell(None));
        };
        let cursor = machine.consumed();
        let commit = self.advance(&mut machine, news, run, cx).await?;
        let place = Place { run, queue: cx.queue(), store: &*store, now: store.clock().now() };
        let written = written(&mut machine, commit, cursor, &place);
        if machine.end().is_none() {
            let ticket = self.cache.lend(run, machine, written.id);
            cx.on_settled(move |verdict| ticket.settled(verdict));
        }
        Ok(Outcome::Commit(Box::new(written)))
    }

    /// A machine that is where the journal is: from the cache, or because the run is only beginning.
    async fn warm(&self, program: &Program, run: &RunId, task: &Task) -> Option<Box<Machine>> {
        let (cursor, first) = (task.cursor?, task.news.first()?);
        let at = RunPosition { cursor, last_commit: task.last_commit };
        if let Some(machine) = self.cache.take(run, at).await {
            return Some(machine);
        }
        let begins = first.position == cursor + 1 && first.event.as_str() == "started";
        begins.then(|| Box::new(self.fresh(program, run, cursor)))
    }

    /// Lets the machine consume what is new, running local activities where its code waits for them.
    async fn advance(
        &self,
        machine: &mut Machine,
        news: Vec<PositionedEvent>,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<Commit, Setback> {
        match machine.advance(news)? {
            Advance::Commit(commit) => Ok(commit),
            Advance::Local(tasks) => self.run_locals(machine, tasks, run, cx).await,
        }
    }
}

/// A message that wants a run to begin is over when the run is there: that has a task of its own.
async fn begin(envelope: &Envelope, task: &Task, cx: &JobContext) -> Result<Outcome, Setback> {
    match super::foreign_start::start(envelope, task, cx).await {
        Ok(()) => Ok(Outcome::Tell(None)),
        Err(Error::Invalid(why)) => Ok(dead(why)),
        Err(error) => Err(error.into()),
    }
}

/// A message that no version of this program can have written.
fn dead(error: String) -> Outcome {
    Outcome::Dead(DeathCause { reason: DeathReason::InvalidPayload, error: Some(error) })
}
