//! The effects of a commit: jobs, timers, records and search attributes that the store writes.

use std::time::Duration;

use tidemill_core::envelope::{ActivityTerms, JobOptions, Meta};
use tidemill_core::job::JobState;
use tidemill_core::store::runs::{Effect, RunTimer};
use tidemill_core::store::{Due, JobRecord, NewJob};
use tidemill_core::workflow::{
    Command, NotifyParent, OpenChild, OpenChildren, Parent, ParentClose, Requester, RunId, ScheduleActivity,
    UpdateResult,
};
use tidemill_core::{Queue, QueueName, Timestamp};

use super::remote_command::RemoteCommand;
use crate::definition::DEFAULT_ACTIVITY_QUEUE;

/// How long the answer to an update is kept for its sender.
const UPDATE_ANSWER_RETENTION: Duration = Duration::from_secs(600);

/// The effects of one commit of one run.
pub(crate) struct Effects<'a> {
    run: &'a RunId,
    /// The queue of the run's tasks and remote commands.
    queue: &'a Queue,
    now: Timestamp,
    effects: Vec<Effect>,
}

impl<'a> Effects<'a> {
    pub(crate) fn new(run: &'a RunId, queue: &'a Queue, now: Timestamp) -> Self {
        Self { run, queue, now, effects: Vec::new() }
    }

    pub(crate) fn into_vec(self) -> Vec<Effect> {
        self.effects
    }

    /// Adds the effects of a command. `children` are the run's open children.
    pub(crate) fn add(&mut self, command: &Command, children: &OpenChildren) {
        match command {
            Command::ScheduleActivity(activity) => self.schedule_activity(activity),
            Command::CancelActivity { seq } => {
                self.cancel_activity(*seq);
                self.effects.push(Effect::CancelTimer { seq: *seq });
            }
            Command::StartTimer { seq, due_ms } => {
                let (seq, due) = (*seq, Due::At(Timestamp(*due_ms)));
                self.effects.push(Effect::SetTimer { seq, due, timer: RunTimer::Timer });
            }
            Command::CancelTimer { seq } => self.effects.push(Effect::CancelTimer { seq: *seq }),
            Command::StartChild(child) => {
                self.remote_command(child.seq, &RemoteCommand::Start(child.clone()))
            }
            Command::CancelChild { seq } => {
                if let Some(child) = children.get(*seq) {
                    self.cancel_child(*seq, child, "the parent does not wait any more");
                }
            }
            Command::SignalRun { seq, run, name, payload } => {
                let (run, name, payload) = (run.clone(), name.clone(), payload.clone());
                self.remote_command(*seq, &RemoteCommand::Signal { run, name, payload });
            }
            Command::SearchAttributes { values } => self.effects.push(Effect::Attributes(values.clone())),
            Command::UpdateDone { id, result } => self.answer_update(id, result),
            Command::SideEffect { .. }
            | Command::LocalActivity { .. }
            | Command::TooLarge { .. }
            | Command::Patch { .. } => {}
        }
    }

    pub(crate) fn remote_command(&mut self, seq: u64, command: &RemoteCommand) {
        self.effects.push(command.to_effect(self.run, seq, self.queue, self.now));
    }

    fn schedule_activity(&mut self, activity: &ScheduleActivity) {
        let ScheduleActivity { seq, name, input, queue, retry, .. } = activity;
        let requester = Requester { run: self.run.clone(), seq: *seq };
        let heartbeat = activity.heartbeat_ms.map(Duration::from_millis);
        let meta = Meta {
            correlation_id: Some(self.run.as_str()),
            user_id: None,
            enqueue_ts: self.now,
            source: "workflow",
        };
        let draft = JobOptions {
            kind: name,
            max_attempts: retry.max_attempts,
            timeout: activity.start_to_close_ms.map(Duration::from_millis),
            keep_result: None,
            backoff: Some(retry.backoff()),
            tracked: true,
            activity: Some(ActivityTerms { requester: &requester, heartbeat }),
            meta,
        };
        let id = self.run.part(seq);
        // The input is JSON, so this always serializes.
        let envelope = draft.template().fill(&id, input).map(|(bytes, _)| bytes).unwrap_or_default();
        let links = Default::default();
        let job = NewJob { id, envelope, due: Due::Now, tracked: true, generated_id: false, links };
        let queue = queue.clone().unwrap_or_else(default_queue);
        self.effects.push(Effect::Job { queue: Queue::at_least_once(queue), job });
        if let Some(ms) = activity.schedule_to_close_ms {
            let due = Due::In(Duration::from_millis(ms));
            self.effects.push(Effect::SetTimer { seq: *seq, due, timer: RunTimer::ScheduleToClose });
        }
    }

    /// Cancels the job of an activity.
    pub(crate) fn cancel_activity(&mut self, seq: u64) {
        self.effects.push(Effect::CancelJob(self.run.part(seq)));
    }

    fn cancel_child(&mut self, seq: u64, child: &OpenChild, reason: &str) {
        let (run, parent, reason) = (child.run.clone(), self.as_parent(seq), reason.to_owned());
        self.remote_command(seq, &RemoteCommand::Cancel { run, parent, reason });
    }

    fn as_parent(&self, seq: u64) -> Parent {
        Parent { run: self.run.clone(), seq, notify_parent: NotifyParent::End }
    }

    /// Applies `parent_close` to the children at the end of the run.
    pub(crate) fn close_children(&mut self, children: &OpenChildren) {
        for (seq, child) in children.iter() {
            match child.parent_close {
                ParentClose::Abandon => {}
                ParentClose::Cancel => self.cancel_child(seq, child, "the parent has ended"),
                ParentClose::Terminate => {
                    let (run, parent) = (child.run.clone(), self.as_parent(seq));
                    let reason = "the parent has ended".to_owned();
                    self.remote_command(seq, &RemoteCommand::Terminate { run, parent, reason });
                }
            }
        }
    }

    fn answer_update(&mut self, id: &str, result: &UpdateResult) {
        // An answer is JSON or text, so this always serializes.
        let output = serde_json::to_vec(result).unwrap_or_default().into();
        let (job, finished_at) = (self.run.part(format_args!("u{id}")), self.now);
        let record = JobRecord {
            job,
            state: JobState::Done,
            output,
            error: None,
            finished_at,
            keep: UPDATE_ANSWER_RETENTION,
        };
        self.effects.push(Effect::Record(record));
    }
}

fn default_queue() -> QueueName {
    QueueName::new(DEFAULT_ACTIVITY_QUEUE).unwrap_or_else(|_| unreachable!("it is a valid name"))
}
