//! One task of a run: from where it was to its next commit.

use std::sync::Arc;

use tidemill_core::dead::{Cause, Reason};
use tidemill_core::workflow::{Arrived, Commit, RunId};
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
        let task = match (Task::read(envelope), RunId::new(envelope.id().as_str())) {
            (Ok(task), Ok(run)) => self.dispatch(envelope, task, &run, cx).await,
            (Err(error), _) => return dead(error.to_string()),
            (_, Err(error)) => return dead(error.to_string()),
        };
        task.unwrap_or_else(|setback| setback.postpone(envelope))
    }

    async fn dispatch(
        self: &Arc<Self>,
        envelope: &Envelope,
        task: Task,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<Outcome, Setback> {
        if task.cursor.is_none() {
            match super::foreign_start::start(envelope, &task, run, cx).await {
                Ok(true) => {}
                Ok(false) => return Ok(Outcome::Tell(None)),
                Err(Error::Invalid(why)) => return Ok(dead(why)),
                Err(error) => return Err(error.into()),
            }
        }
        let Some(program) = self.programs.find(&task.workflow, &task.version) else {
            let Task { workflow, version, .. } = task;
            return Err(Setback::NoProgram { workflow, version });
        };
        match self.carry_on(program, task, run, cx).await {
            Err(Setback::Halted(halt)) => {
                Err(Setback::Halted(place(halt, program, run, &**cx.mill().store()).await))
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
        let (store, birth) = (cx.mill().store().clone(), task.birth);
        let (machine, news) = match self.warm(program, run, &task).await {
            Some(machine) => (Some(machine), task.news),
            // The journal has the news too, and what came since.
            None => (self.rebuild(program, run, &*store).await?, Vec::new()),
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
            let ticket = self.cache.lend(run, machine, birth);
            cx.when_settled(move |verdict| ticket.settled(verdict));
        }
        Ok(Outcome::Commit(Box::new(written)))
    }

    /// A machine that is where the journal is: from the cache, or because the run is only beginning.
    async fn warm(&self, program: &Program, run: &RunId, task: &Task) -> Option<Box<Machine>> {
        let (cursor, first) = (task.cursor?, task.news.first()?);
        if let Some(machine) = self.cache.take(run, task.birth, cursor).await {
            return Some(machine);
        }
        let begins = first.position == cursor + 1 && first.event.word() == "started";
        begins.then(|| Box::new(self.fresh(program, run, cursor)))
    }

    /// Lets the machine consume what is new, running local activities where its code waits for them.
    async fn advance(
        &self,
        machine: &mut Machine,
        news: Vec<Arrived>,
        run: &RunId,
        cx: &JobContext,
    ) -> Result<Commit, Setback> {
        match machine.advance(news)? {
            Advance::Commit(commit) => Ok(commit),
            Advance::Local(tasks) => self.run_locals(machine, tasks, run, cx).await,
        }
    }
}

/// A message that no version of this program can have written.
fn dead(error: String) -> Outcome {
    Outcome::Dead(Cause { reason: Reason::InvalidPayload, error: Some(error) })
}
