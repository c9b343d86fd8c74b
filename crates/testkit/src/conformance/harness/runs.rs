//! Workflow runs: the calls that a worker makes for their tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;
use tidemill_core::Timestamp;
use tidemill_core::chain::JobLinks;
use tidemill_core::envelope::{ActivityTerms, JobOptions, Meta};
use tidemill_core::name::{Kind, Queue, QueueName};
use tidemill_core::settle::{Change, Settlement};
use tidemill_core::store::runs::{
    AfterCommit, CloseRun, CommitParams, Delivered, Delivery, Effect, EntryKind, ParentRef,
    ReadJournalParams, RunInfo, RunTimer, StartRunParams, StartRunResult, StoredEntry, TerminateParams,
    encode_entry,
};
use tidemill_core::store::{Claimed, Due, NewJob, SettleParams, Verdict};
use tidemill_core::workflow::{CommitId, Requester, RunId, RunStatus, Version, WorkflowName};

use super::{LONG, POLL_INTERVAL, QueueHarness, until};

/// The queue of a case's activities.
const ACTIVITIES: &str = "activities";

/// A new run of the workflow `order`.
pub fn order() -> StartRunParams {
    order_of(RunId::generate())
}

/// A run of the workflow `order` with this id.
pub fn order_of(run: RunId) -> StartRunParams {
    let workflow = WorkflowName::new("order").expect("a workflow");
    let head = format!(
        r#"{{"job_id":{:?},"task_type":"workflow:order","attempts":0,"max_attempts":5,"workflow":"order""#,
        run.task().as_str()
    );
    StartRunParams {
        queue: workflow.queue(None),
        workflow,
        version: Version::new("1.0.0").expect("a version"),
        journal: vec![event(
            EntryKind::CommandResult,
            r#"{"started":{"workflow":"order","version":"1.0.0","input":7}}"#,
        )],
        cursor: 0,
        effects: Vec::new(),
        task_head: head.into(),
        first_task_fields: Bytes::from_static(br#","payload":7"#),
        key: None,
        parent: None,
        keep: LONG,
        attributes: BTreeMap::new(),
        run,
    }
}

/// A journal entry for an incoming event.
pub fn event(kind: EntryKind, json: &str) -> StoredEntry {
    StoredEntry { kind, bytes: encode_entry(Timestamp(1), "event", json.as_bytes()) }
}

/// A signal with a number as its payload.
pub fn signal(run: &RunId, number: u64) -> Delivery {
    let json = format!(r#"{{"signal":{{"name":"n","payload":{number}}}}}"#);
    Delivery { run: run.clone(), entry: event(EntryKind::Message, &json), id: None, seq: None }
}

/// The answer to a command, which is not a message.
pub fn answer(run: &RunId, seq: u64) -> Delivery {
    let json = format!(r#"{{"signal_sent":{{"seq":{seq},"result":"ok"}}}}"#);
    Delivery { run: run.clone(), entry: event(EntryKind::CommandResult, &json), id: None, seq: Some(seq) }
}

/// An activity of a run, on the queue of activities.
pub fn activity(run: &RunId, seq: u64) -> Effect {
    let requester = Requester { run: run.clone(), seq };
    let kind = Kind::new("charge").expect("a kind");
    let meta = Meta { correlation_id: None, user_id: None, enqueue_ts: Timestamp(0), source: "testkit" };
    let terms = Some(ActivityTerms { requester: &requester, heartbeat: None });
    let draft = JobOptions {
        kind: &kind,
        max_attempts: 1,
        timeout: None,
        keep_result: None,
        backoff: None,
        tracked: true,
        activity: terms,
        meta,
    };
    let (id, payload) = (run.part(seq), RawValue::from_string(seq.to_string()).expect("JSON"));
    let envelope = draft.template().fill(&id, &payload).expect("an envelope").0;
    let links = JobLinks::default();
    let job = NewJob { id, envelope, due: Due::Now, tracked: true, generated_id: false, links };
    Effect::Job { queue: activities(), job }
}

/// The queue of activities.
pub fn activities() -> Queue {
    Queue::at_least_once(QueueName::new(ACTIVITIES).expect("a queue"))
}

/// A timer.
pub fn timer(seq: u64, due: Timestamp) -> Effect {
    Effect::SetTimer { seq, due: Due::At(due), timer: RunTimer::Timer }
}

/// The successful end of a run.
pub fn completed(output: &str) -> AfterCommit {
    AfterCommit::Close(CloseRun {
        status: RunStatus::Completed,
        output: Bytes::copy_from_slice(output.as_bytes()),
        error: None,
        notify_parent: None,
    })
}

/// The successful end of a run, with a delivery to its parent.
pub fn completed_for(parent: &ParentRef, output: &str) -> AfterCommit {
    let json = format!(r#"{{"child_done":{{"seq":{},"result":{{"ok":{output}}}}}}}"#, parent.seq);
    let told = Delivery {
        run: parent.run.clone(),
        entry: event(EntryKind::CommandResult, &json),
        id: None,
        seq: Some(parent.seq),
    };
    match completed(output) {
        AfterCommit::Close(close) => AfterCommit::Close(CloseRun { notify_parent: Some(told), ..close }),
        other => other,
    }
}

/// A claimed task of a run.
#[derive(Debug)]
pub struct ClaimedTask {
    /// The claim.
    pub claimed: Claimed,
    /// The run.
    pub run: RunId,
    /// The run's position in its journal.
    pub cursor: u64,
    /// The commit before it.
    pub last_commit: Option<u64>,
    /// New entries with their positions.
    pub news: Vec<(u64, Value)>,
}

impl ClaimedTask {
    /// The position of the last event in the task.
    pub fn last(&self) -> u64 {
        self.news.last().map_or(self.cursor, |(position, _)| *position)
    }

    /// The numbers of the signals among the new entries.
    pub fn signals(&self) -> Vec<u64> {
        let number = |(_, entry): &(u64, Value)| entry["event"]["signal"]["payload"].as_u64();
        self.news.iter().filter_map(number).collect()
    }

    /// Reads a claim as a task.
    pub fn new(claimed: Claimed) -> Self {
        let envelope = claimed.body.as_ref().expect("an envelope");
        let json: Value = serde_json::from_slice(envelope.bytes()).expect("a task");
        let cursor = json["cursor"].as_u64().expect("a cursor");
        let news = json["news"].as_array().expect("news").iter();
        let news = news.map(|n| (n["position"].as_u64().expect("a position"), n["entry"].clone())).collect();
        let run = claimed.lease.job.run().expect("a task says whose it is");
        Self { run, cursor, last_commit: json["lastCommit"].as_u64(), news, claimed }
    }

    /// The settlement that commits it.
    pub fn settlement(&self, effects: Vec<Effect>, then: AfterCommit) -> Settlement {
        self.settlement_upto(self.last(), effects, then)
    }

    /// The settlement that commits the entries up to a position.
    pub fn settlement_upto(&self, upto: u64, effects: Vec<Effect>, then: AfterCommit) -> Settlement {
        let entry = encode_entry(Timestamp(2), "commit", format!(r#"{{"upto":{upto}}}"#).as_bytes());
        let (run, id) = (self.run.clone(), CommitId::generate());
        let commit = CommitParams { run, id, cursor: self.cursor, upto, entry, effects, then };
        Settlement { lease: self.claimed.lease.clone(), change: Change::Commit(Box::new(commit)) }
    }
}

impl QueueHarness {
    /// The same worker on the queue of `order`'s tasks.
    pub fn on_tasks(&self) -> Self {
        Self { queue: order().queue, ..self.clone() }
    }

    /// The same worker on the queue of activities.
    pub fn on_activities(&self) -> Self {
        Self { queue: activities(), ..self.clone() }
    }

    /// Starts a run that must be new.
    pub async fn start_run(&self, run: StartRunParams) -> RunId {
        assert_eq!(self.store.start_run(&run).await.unwrap(), StartRunResult::Created);
        run.run
    }

    /// Starts a run and commits its first task, so that it waits.
    pub async fn start_parked_run(&self, effects: impl FnOnce(&RunId) -> Vec<Effect>) -> RunId {
        let run = self.start_run(order()).await;
        let task = self.task_of(&run).await;
        let effects = effects(&run);
        self.commit(&task, effects, AfterCommit::Running).await;
        run
    }

    /// Starts another such run, while the task of `other` may be ready.
    pub async fn start_parked_run_beside(&self, other: &RunId) -> RunId {
        let own = self.task_of(other).await;
        let run = self.start_parked_run(|_| Vec::new()).await;
        self.on_tasks().settle(&own.claimed, super::super::harness::retry(Duration::ZERO)).await;
        run
    }

    /// Claims the next task.
    pub async fn task(&self) -> ClaimedTask {
        ClaimedTask::new(self.on_tasks().claim_one().await)
    }

    /// Claims the next task, which must be this run's.
    pub async fn task_of(&self, run: &RunId) -> ClaimedTask {
        let task = self.task().await;
        assert_eq!(task.run, *run);
        task
    }

    /// Asserts that there is no task.
    pub async fn no_task(&self) {
        self.on_tasks().claim_nothing().await;
    }

    /// Commits a task, which must be accepted.
    pub async fn commit(&self, task: &ClaimedTask, effects: Vec<Effect>, then: AfterCommit) {
        assert_eq!(self.try_commit(task, effects, then).await, Verdict::Accepted);
    }

    /// Commits a task, which must be accepted, and returns the commit's id.
    pub async fn commit_named(&self, task: &ClaimedTask, then: AfterCommit) -> CommitId {
        let settlement = task.settlement(Vec::new(), then);
        let Change::Commit(commit) = &settlement.change else { unreachable!("it is a commit") };
        let id = commit.id;
        assert_eq!(
            self.store.settle(SettleParams::current(&[settlement])).await.unwrap(),
            [Verdict::Accepted]
        );
        id
    }

    /// Commits a task.
    pub async fn try_commit(&self, task: &ClaimedTask, effects: Vec<Effect>, then: AfterCommit) -> Verdict {
        self.store.settle(SettleParams::current(&[task.settlement(effects, then)])).await.unwrap().remove(0)
    }

    /// Delivers one event.
    pub async fn deliver(&self, delivery: Delivery) -> Delivered {
        self.store.deliver(&[delivery]).await.unwrap().remove(0)
    }

    /// Sends signals with these numbers, in this order.
    pub async fn signal(&self, run: &RunId, numbers: impl IntoIterator<Item = u64>) {
        let deliveries: Vec<_> = numbers.into_iter().map(|number| signal(run, number)).collect();
        let answers = self.store.deliver(&deliveries).await.unwrap();
        assert_eq!(answers, vec![Delivered::Yes; deliveries.len()]);
    }

    /// The whole journal: positions and entries.
    pub async fn journal(&self, run: &RunId) -> Vec<(u64, Value)> {
        let read = ReadJournalParams { run, from: 1, limit: 100_000, bytes: usize::MAX };
        let entries = self.store.read_journal(read).await.unwrap();
        let json = |bytes: &Bytes| serde_json::from_slice(bytes).expect("an entry of JSON");
        entries.into_iter().map(|(position, written)| (position, json(&written.bytes))).collect()
    }

    /// The run, which must exist.
    pub async fn run(&self, run: &RunId) -> RunInfo {
        self.store.get_run(run).await.unwrap().expect("the run is there")
    }

    /// Terminates a run.
    pub async fn terminate(&self, run: &RunId, effects: &[Effect]) -> Verdict {
        let cursor = self.run(run).await.cursor;
        let close = CloseRun {
            status: RunStatus::Terminated,
            output: Bytes::new(),
            error: Some("enough".to_owned()),
            notify_parent: None,
        };
        self.store.terminate(TerminateParams { run, cursor, effects, close: &close }).await.unwrap()
    }

    /// Promotes until there is a task.
    pub async fn task_when_due(&self) -> ClaimedTask {
        let tasks = self.on_tasks();
        let mut claimed = until("an alarm to make a task", || async {
            self.promote().await;
            let claimed = tasks.claim_with(1, 1, POLL_INTERVAL).await;
            (!claimed.is_empty()).then_some(claimed)
        })
        .await;
        ClaimedTask::new(claimed.remove(0))
    }

    /// The time after this delay.
    pub fn after(&self, delay: Duration) -> Timestamp {
        let now = self.store.clock().now();
        Timestamp(now.0 + i64::try_from(delay.as_millis()).expect("a short time"))
    }
}
