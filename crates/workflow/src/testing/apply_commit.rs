//! `apply_commit`: does in a simulation what a store does with a commit.

use tidemill_core::workflow::{
    ChildResult, Command, Commit, NotifyParent, Parent, ParentClose, RunEnd, RunEvent, RunId, RunStarted,
    SignalDelivery, StartChild, StoredSignal,
};

use super::run::{RunClose, TestRun};
use super::simulation::Simulation;

impl Simulation {
    /// Applies the commands of a commit. `cancelled` are the children with `Abandon` that a
    /// `select!` has dropped.
    pub(super) fn apply_commit(&mut self, id: &RunId, commit: Commit, cancelled: &[u64]) {
        let ends = commit.end.is_some();
        for command in commit.commands {
            // Returning code drops the handles of its children. Their `parent_close` policy decides
            // then.
            let superseded =
                matches!(&command, Command::CancelChild { seq } if ends && !cancelled.contains(seq));
            if !superseded {
                self.apply_command(id, command);
            }
        }
        if let Some(end) = commit.end {
            self.close(id, end);
        }
    }

    fn apply_command(&mut self, id: &RunId, command: Command) {
        match command {
            Command::ScheduleActivity(activity) => {
                let (takes, result) = self.world.mocks.run(&activity);
                let takes = takes + i64::try_from(self.random_below(50)).unwrap_or(0) - 1;
                self.schedule.add_event(
                    self.now + takes.max(0),
                    id,
                    RunEvent::ActivityDone { seq: activity.seq, result },
                );
            }
            Command::StartTimer { seq, due_ms } => {
                self.schedule.add_event(due_ms.max(self.now), id, RunEvent::TimerFired { seq });
            }
            Command::CancelActivity { seq } | Command::CancelTimer { seq } => self.schedule.cancel(id, seq),
            Command::StartChild(child) => self.start_child(id, *child),
            Command::CancelChild { seq } => self.cancel_child(id, seq),
            Command::SignalRun { seq, run, name, payload } => {
                let result =
                    self.send_signal(&run, StoredSignal { name, payload, id: format!("{id}.{seq}") });
                self.schedule.add_event(self.now, id, RunEvent::SignalSent { seq, result });
            }
            Command::SearchAttributes { values } => self.attributes.extend(values),
            Command::UpdateDone { id, result } => {
                self.updates.insert(id, result);
            }
            Command::SideEffect { .. }
            | Command::LocalActivity { .. }
            | Command::TooLarge { .. }
            | Command::Patch { .. } => {}
        }
    }

    fn start_child(&mut self, id: &RunId, child: StartChild) {
        let StartChild { seq, workflow, version, input, run, parent_close, notify_parent: notify, keep_ms } =
            child;
        let parent = Some(Parent { run: id.clone(), seq, notify_parent: notify });
        let limit = self.world.journal_limit;
        let started = RunStarted { parent, limit, keep_ms, ..RunStarted::new(workflow, version, input) };
        if let Err(message) = self.start(&run, started) {
            let result = ChildResult::Failed { message };
            return self.schedule.add_event(self.now, id, RunEvent::ChildDone { seq, result });
        }
        if notify != NotifyParent::End {
            self.schedule.add_event(self.now, id, RunEvent::ChildStarted { seq, run: run.clone() });
        }
        if let Some(parent) = self.runs.get_mut(id) {
            parent.children.push((run, parent_close));
        }
    }

    fn cancel_child(&mut self, id: &RunId, seq: u64) {
        let is_child =
            |run: &&TestRun| run.parent.as_ref().is_some_and(|parent| (&parent.run, parent.seq) == (id, seq));
        if let Some(child) = self.runs.values().find(is_child) {
            let reason = Some("the parent does not wait any more".to_owned());
            self.schedule.add_event(self.now, &child.id, RunEvent::CancelRequested { reason });
        }
    }

    fn send_signal(&mut self, run: &RunId, signal: StoredSignal) -> SignalDelivery {
        if self.runs.get(run).is_some_and(|run| run.end.is_none()) {
            self.schedule.add_event(self.now, run, RunEvent::Signal(signal));
            return SignalDelivery::Ok;
        }
        SignalDelivery::Failed { message: format!("run `{run}` is closed or does not exist") }
    }

    fn close(&mut self, id: &RunId, end: RunEnd) {
        let Some(run) = self.runs.get_mut(id) else { return };
        let children = std::mem::take(&mut run.children);
        if let RunEnd::ContinuedAsNew { input, seq, signals, updates } = end {
            if let Some(before) = run.started().cloned() {
                let continued = before.continued + 1;
                run.continue_as_new(
                    self.now,
                    RunStarted { input, seq, signals, updates, continued, ..before },
                );
            }
        } else {
            run.end = Some(RunClose::By(end.clone()));
            self.notify_parent(id, child_end(end));
        }
        for (child, policy) in children {
            self.close_child(&child, policy);
        }
    }

    fn notify_parent(&mut self, id: &RunId, result: ChildResult) {
        if let Some(parent) = self.runs.get(id).and_then(|run| run.parent.clone())
            && parent.notify_parent != NotifyParent::Start
        {
            self.schedule.add_event(self.now, &parent.run, RunEvent::ChildDone { seq: parent.seq, result });
        }
    }

    fn close_child(&mut self, child: &RunId, policy: ParentClose) {
        let Some(run) = self.runs.get_mut(child).filter(|run| run.end.is_none()) else { return };
        match policy {
            ParentClose::Terminate => {
                run.end = Some(RunClose::Terminated);
                let children = std::mem::take(&mut run.children);
                children.into_iter().for_each(|(child, policy)| self.close_child(&child, policy));
            }
            ParentClose::Cancel => {
                let reason = Some("the parent has ended".to_owned());
                self.schedule.add_event(self.now, child, RunEvent::CancelRequested { reason });
            }
            ParentClose::Abandon => {}
        }
    }
}

fn child_end(end: RunEnd) -> ChildResult {
    match end {
        RunEnd::Completed(output) => ChildResult::Ok(output),
        RunEnd::Failed { message } => ChildResult::Failed { message },
        RunEnd::Cancelled | RunEnd::ContinuedAsNew { .. } => ChildResult::Cancelled,
    }
}
