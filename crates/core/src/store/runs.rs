//! The workflow verbs, with their parameters and results.
//!
//! A run is a row and a journal. Its task is a job whose id is derived from that of the run
//! ([`RunId::task`]), so there is at most one. Its activities are jobs too, and deliver their
//! results to the run. A verb changes one run and data in its shard only ([`RunId::root`]). An
//! operation on a run in another shard is a job of its own, which a commit creates.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Due, Error, JobRecord, NewJob, Page, Verdict};
use crate::clock::Timestamp;
use crate::envelope::Envelope;
use crate::name::{JobId, Queue};
use crate::workflow::{CommitId, Json, Requester, RunId, RunStatus, Topic, Version, WorkflowName};

/// The largest number of events in a task. A run with more gets them in its next tasks.
pub const MAX_TASK_EVENTS: usize = 256;

/// The size limit of the events in a task: the event that reaches it is the last. A worker claims
/// many tasks at once, so this is less than the size limit of a journal read.
pub const MAX_TASK_EVENT_BYTES: usize = 1 << 20;

/// How many delivery ids of a run are remembered regardless of their age: see [`Delivery::id`].
pub const MAX_REMEMBERED_DELIVERIES: usize = 1_000;

/// How long delivery ids are remembered, unless a commit specifies it: see [`Delivery::id`].
pub const DELIVERY_ID_RETENTION: Duration = Duration::from_secs(60 * 60);

/// The workflow part of a store: runs and their journals.
#[async_trait]
pub trait Runs: Send + Sync {
    /// Starts a run: its journal, its effects and its first task, in one step. Of concurrent
    /// callers with the same key or id, one starts it. A closed run that is still kept counts as
    /// existing; one whose retention has expired does not, whether pruned or not.
    async fn start_run(&self, run: &StartRunParams) -> Result<StartRunResult, Error>;

    /// Appends events to journals and ensures that each run has a task: one, however many events
    /// there are. The task exists if a job with its id ([`RunId::task`]) exists in any state. So a
    /// task that another program removed is created again by the next event. Returns one result per
    /// delivery, in order; each is atomic. The order is kept per run and caller.
    async fn deliver(&self, deliveries: &[Delivery]) -> Result<Vec<Delivered>, Error>;

    /// Ends a run at once, without running its code: it is closed, and its timers and its task are
    /// removed. A worker that runs the task loses its lease and is notified by
    /// [`Wake::LeaseLost`](super::Wake::LeaseLost). Returns [`Verdict::LeaseLost`] if the run does
    /// not exist, has ended, or has advanced beyond `cursor`.
    async fn terminate(&self, terminate: TerminateParams<'_>) -> Result<Verdict, Error>;

    /// A part of a journal with positions. Empty if the run does not exist.
    async fn read_journal(&self, read: ReadJournalParams<'_>) -> Result<Vec<(u64, StoredEntry)>, Error>;

    /// Looks up one run.
    async fn get_run(&self, run: &RunId) -> Result<Option<RunInfo>, Error>;

    /// The run that has this idempotency key, open or closed: the latest that was started with it.
    /// It may be one whose retention has expired, until it is pruned.
    async fn find_run(&self, workflow: &WorkflowName, key: &str) -> Result<Option<RunId>, Error>;

    /// A page of runs, newest first.
    async fn list_runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error>;

    /// Deletes closed runs with all their data: those whose retention has expired, and of each
    /// workflow the oldest beyond a number. For the latter only if they ended long enough ago
    /// ([`PruneRunsParams::min_age`]). Deletes a bounded number and returns it. Any number of
    /// processes may call it concurrently.
    async fn prune_runs(&self, prune: PruneRunsParams) -> Result<u64, Error>;
}

/// A run to start.
#[derive(Debug, Clone)]
pub struct StartRunParams {
    /// The id.
    pub run: RunId,
    /// The workflow.
    pub workflow: WorkflowName,
    /// The version of the code.
    pub version: Version,
    /// The queue of its tasks.
    pub queue: Queue,
    /// The journal from position 1: one entry for the start, or more if it continues the journal of
    /// another run. Events after `cursor` are new and get the store's time; the others keep theirs.
    pub journal: Vec<StoredEntry>,
    /// The position of the run: 0, or the last position that a commit of this journal consumed.
    pub cursor: u64,
    /// Effects of the commits in the journal; none for a run that starts from the beginning.
    pub effects: Vec<Effect>,
    /// The envelope of its tasks without the closing brace: see [`task_envelope`].
    pub task_head: Bytes,
    /// Additional fields of the first task, each with a preceding comma.
    pub first_task_fields: Bytes,
    /// The idempotency key, which prevents a second run. The key is in the run's shard: see
    /// [`RunId::keyed`].
    pub key: Option<RunKey>,
    /// The parent that receives its end.
    pub parent: Option<ParentRef>,
    /// How long it is kept after its end.
    pub keep: Duration,
    /// Search attributes.
    pub attributes: BTreeMap<Topic, Json>,
}

/// The parent of a run, as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentRef {
    /// The parent.
    pub run: RunId,
    /// The number of the parent's command.
    pub seq: u64,
}

/// An idempotency key and its conflict policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunKey {
    /// The key, 1 to 256 bytes. Keys of different workflows are independent.
    pub key: String,
    /// What to do if a run with the key exists.
    pub conflict: ConflictPolicy,
}

/// What to do if a run with the same key exists: open, or closed and still kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConflictPolicy {
    /// Return that run, open or closed.
    #[default]
    UseExisting,
    /// Return an error with that run; start nothing.
    Reject,
    /// Return that run if it is open. If it is closed, start a new one, which takes over the key.
    StartAfterClose,
}

/// The result of starting a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartRunResult {
    /// It was started.
    Created,
    /// A run with its id, or this run with its key, exists; nothing changed.
    Existing(RunId),
    /// This run with its key exists, and the policy rejects that; nothing changed.
    Rejected(RunId),
}

/// A journal entry, as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// The kind of entry.
    pub kind: EntryKind,
    /// The entry as JSON: `{"at":…,"event":{…}}` or `{"at":…,"commit":{…}}`. The store that appends
    /// it replaces the time with its own ([`with_timestamp`]). Timers are relative to it, and the
    /// caller's time may be old.
    pub bytes: Bytes,
}

/// The start of every entry; a number and a comma follow.
const TIME_PREFIX: &[u8] = br#"{"at":"#;

/// The entry with this time. Bytes that are not an entry are returned unchanged. Stores do the same
/// in SQL and Lua.
pub fn with_timestamp(entry: &Bytes, now: Timestamp) -> Bytes {
    match entry.iter().position(|byte| *byte == b',') {
        Some(comma) if entry.starts_with(TIME_PREFIX) => {
            [TIME_PREFIX, now.0.to_string().as_bytes(), &entry[comma..]].concat().into()
        }
        _ => entry.clone(),
    }
}

/// The kinds of journal entries that stores distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// The commit of a task.
    Commit,
    /// The result of a command, such as the end of an activity or a timer.
    CommandResult,
    /// A signal or another message to the run. If the run continues as new before consuming it, it
    /// is copied into the new journal.
    Message,
}

/// An event for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The run.
    pub run: RunId,
    /// The entry with the event; not a commit.
    pub entry: StoredEntry,
    /// The id of the event, at most 128 bytes. A run receives an event with an id once, however
    /// often it is sent.
    ///
    /// An id is remembered as long as its run exists, with one exception. When a run continues as
    /// new, it forgets ids that are older than [`ContinueAsNew::id_retention`] and not among the
    /// latest [`MAX_REMEMBERED_DELIVERIES`]. So their number is bounded by the entries of one
    /// journal and by what arrives in that time.
    pub id: Option<String>,
    /// The command that it answers: a timer with this number is cancelled.
    pub seq: Option<u64>,
}

/// The result of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// It is in the journal, and the run has a task.
    Yes,
    /// It was delivered before, whether or not the run has ended since; nothing changed.
    Duplicate,
    /// The run has ended, with this status; nothing changed.
    Closed(RunStatus),
    /// The run does not exist.
    NotFound,
}

/// The commit of a task, applied in one step with the end of the task's lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitParams {
    /// The run.
    pub run: RunId,
    /// The id of the commit. The store keeps that of the last commit and adds it to the run's
    /// tasks.
    pub id: CommitId,
    /// The position of the run when the task began. If the run has advanced or ended, the commit
    /// has no effect except that the task ends, and the verdict is that of a lost lease.
    pub cursor: u64,
    /// The position of the last consumed event, which is the run's new position.
    pub upto: u64,
    /// The journal entry of the commit.
    pub entry: Bytes,
    /// The effects of its commands.
    pub effects: Vec<Effect>,
    /// What happens to the run.
    pub then: AfterCommit,
}

/// The position of a run. The cursor alone is not unique: a store that loses its last writes lets
/// another worker commit at the same cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunPosition {
    /// The position of the last event that a commit consumed.
    pub cursor: u64,
    /// That commit; `None` before the first.
    pub last_commit: Option<CommitId>,
}

/// What happens to a run after a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterCommit {
    /// It continues. If there are events that the commit did not consume, it gets its next task at
    /// once.
    Running,
    /// It continues as new, with an empty journal. Positions continue and timers are cancelled.
    /// Unconsumed messages follow the first entry; other events are dropped. It gets its next task
    /// at once.
    ContinueAsNew(ContinueAsNew),
    /// It ends. Its timers are cancelled.
    Close(CloseRun),
}

/// How a run continues as new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinueAsNew {
    /// The first entry of the new journal.
    pub first: Bytes,
    /// How long it remembers delivery ids: see [`Delivery::id`].
    pub id_retention: Duration,
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseRun {
    /// The final status; not [`RunStatus::Running`].
    pub status: RunStatus,
    /// The output as JSON; empty if there is none.
    pub output: Bytes,
    /// The error message, if it failed.
    pub error: Option<String>,
    /// The event for the parent. Only if the parent is in the run's shard: see
    /// [`Store::same_shard`](super::Store::same_shard).
    pub notify_parent: Option<Delivery>,
}

/// An effect of a commit outside the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Adds a job whose id is a part of the run's ([`RunId::part`]).
    Job {
        /// The queue.
        queue: Queue,
        /// The job; tracked, and without links.
        job: NewJob,
    },
    /// Cancels such a job, as [`Jobs::cancel`](super::Jobs::cancel) does, but without an event to
    /// the run if it was waiting.
    CancelJob(JobId),
    /// Sets a timer of the run. If it is due before all others,
    /// [`Wake::DueEarlier`](super::Wake::DueEarlier) is published for the queue of the run's tasks.
    SetTimer {
        /// The number of the command.
        seq: u64,
        /// When it is due.
        due: Due,
        /// The kind of timer.
        timer: RunTimer,
    },
    /// Cancels a timer.
    CancelTimer {
        /// The number of the command.
        seq: u64,
    },
    /// Adds search attributes.
    Attributes(BTreeMap<Topic, Json>),
    /// Stores a record for a caller that waits, such as the answer to an update. Its id is a part
    /// of the run's ([`RunId::part`]). Waiters are notified as for a chain.
    Record(JobRecord),
}

/// The kinds of timers of a run, by the event that they deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunTimer {
    /// A timer of the code has fired.
    Timer,
    /// An activity has exceeded its schedule-to-close timeout.
    ScheduleToClose,
}

impl RunTimer {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Timer, Self::ScheduleToClose];

    /// The JSON of the event before and after the command's number. It is an
    /// [`EntryKind::CommandResult`]; [`encode_entry`] makes the entry.
    pub const fn event_parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Timer => (r#"{"timer_fired":{"seq":"#, "}}"),
            Self::ScheduleToClose => (
                r#"{"activity_done":{"seq":"#,
                r#","result":{"failed":{"message":"not done in time","kind":{"timed_out":"schedule_to_close"}}}}}"#,
            ),
        }
    }

    /// The event as JSON.
    pub fn event(self, seq: u64) -> String {
        let (before, after) = self.event_parts();
        format!("{before}{seq}{after}")
    }

    /// The one-letter code in the store.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Timer => "t",
            Self::ScheduleToClose => "c",
        }
    }
}

/// The JSON, before and after the command's number, of the event for a removed activity, after a
/// cancel or a purge. The activity will not run, so the run must not wait for it. It is an
/// [`EntryKind::CommandResult`].
pub const REMOVED_EVENT_PARTS: (&str, &str) = (
    r#"{"activity_done":{"seq":"#,
    r#","result":{"failed":{"message":"removed from its queue","kind":"cancelled"}}}}"#,
);

/// The event for the run that waits for a removed job; `None` if there is none. Stores do the same
/// in SQL and Lua.
pub fn removal_delivery(envelope: Bytes, now: Timestamp) -> Option<Delivery> {
    let envelope = Envelope::read(envelope).ok()?;
    let Requester { run, seq } = envelope.requester()?;
    let (before, after) = REMOVED_EVENT_PARTS;
    let entry = encode_entry(now, "event", format!("{before}{seq}{after}").as_bytes());
    let entry = StoredEntry { kind: EntryKind::CommandResult, bytes: entry };
    Some(Delivery { run: run.clone(), entry, id: None, seq: Some(*seq) })
}

/// Which run to terminate, and how.
#[derive(Debug)]
pub struct TerminateParams<'a> {
    /// The run.
    pub run: &'a RunId,
    /// The position of the run when the caller read its journal. If the run has advanced, nothing
    /// changes.
    pub cursor: u64,
    /// The effects of the end.
    pub effects: &'a [Effect],
    /// The end.
    pub close: &'a CloseRun,
}

/// The current state of a run.
#[derive(Debug, Clone)]
pub struct RunInfo {
    /// The run.
    pub run: RunId,
    /// The workflow.
    pub workflow: WorkflowName,
    /// The version.
    pub version: Version,
    /// The status.
    pub status: RunStatus,
    /// The queue of its tasks.
    pub queue: Queue,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it ended.
    pub closed_at: Option<Timestamp>,
    /// The position of the last event that a commit consumed.
    pub cursor: u64,
    /// The last position of its journal.
    pub length: u64,
    /// The last commit; `None` before the first.
    pub last_commit: Option<CommitId>,
    /// The idempotency key it was started with.
    pub key: Option<String>,
    /// The parent, if it is a child.
    pub parent: Option<ParentRef>,
    /// Search attributes.
    pub attributes: BTreeMap<Topic, Json>,
    /// When its next timer is due.
    pub next_timer: Option<Timestamp>,
    /// The output as JSON; empty if it has none, or none yet.
    pub output: Bytes,
    /// The error message.
    pub error: Option<String>,
}

/// Which part of a journal to read.
#[derive(Debug)]
pub struct ReadJournalParams<'a> {
    /// The run.
    pub run: &'a RunId,
    /// The first position. That of a journal is 1, or where the run last continued as new.
    pub from: u64,
    /// The largest number of entries.
    pub limit: usize,
    /// The size limit in bytes: the entry that reaches it is the last. So at least one entry is
    /// returned, if there is one. If fewer than `limit` are returned and the size is below this,
    /// there are no more. Stores do not read further.
    pub bytes: usize,
}

/// The remaining size of a journal read.
#[derive(Debug, Clone, Copy)]
pub struct ReadBudget {
    entries: usize,
    bytes: usize,
}

impl ReadBudget {
    /// A budget of entries and bytes; the last entry may exceed the bytes.
    pub fn new(entries: usize, bytes: usize) -> Self {
        Self { entries, bytes: bytes.max(1) }
    }

    /// Whether another entry may be added.
    pub fn is_left(&self) -> bool {
        self.entries > 0 && self.bytes > 0
    }

    /// Subtracts an entry.
    pub fn fill(&mut self, entry: &[u8]) {
        self.entries = self.entries.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(entry.len());
    }
}

/// Which closed runs to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneRunsParams {
    /// The largest number of closed runs per workflow, regardless of their retention.
    pub max_kept: u64,
    /// A run that ended more recently is not deleted for exceeding `max_kept`: its starter may not
    /// have seen the end, or may start it again with its key.
    pub min_age: Duration,
}

/// Which runs to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct ListRunsParams {
    /// The workflow.
    pub workflow: Option<WorkflowName>,
    /// The status.
    pub status: Option<RunStatus>,
    /// Started at this time or later.
    pub since: Option<Timestamp>,
    /// Started before this time.
    pub before: Option<Timestamp>,
    /// A search attribute and its value.
    pub attribute: Option<(Topic, Json)>,
    /// The end of the previous page.
    pub cursor: Option<String>,
    /// The largest number of runs. A page may have fewer, even none, without being the last.
    pub limit: usize,
}

/// The envelope of a task: `head`, the fields of `opening`, the run's position and last commit, and
/// the new events, oldest first. The number of events is limited by [`MAX_TASK_EVENTS`] and
/// [`MAX_TASK_EVENT_BYTES`]. Each is its journal entry with the position:
/// `{"position":7,"entry":{…}}`. Stores do the same in SQL and Lua.
pub fn task_envelope<'a>(
    head: &[u8],
    opening: &[u8],
    at: RunPosition,
    events: impl IntoIterator<Item = (u64, &'a [u8])>,
) -> Bytes {
    let RunPosition { cursor, last_commit } = at;
    let commit = last_commit.map_or_else(String::new, |id| format!(r#","lastCommit":{id}"#));
    let mut out = [head, opening, format!(r#","cursor":{cursor}{commit},"news":["#).as_bytes()].concat();
    let mut budget = ReadBudget::new(MAX_TASK_EVENTS, MAX_TASK_EVENT_BYTES);
    for (index, (position, entry)) in events.into_iter().enumerate() {
        if !budget.is_left() {
            break;
        }
        budget.fill(entry);
        let comma = if index > 0 { "," } else { "" };
        out.extend_from_slice(format!(r#"{comma}{{"position":{position},"entry":"#).as_bytes());
        out.extend_from_slice(entry);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    out.into()
}

/// A journal entry; `kind` is `event` or `commit`.
pub fn encode_entry(at: Timestamp, kind: &str, json: &[u8]) -> Bytes {
    let mut out = format!(r#"{{"at":{},"{kind}":"#, at.0).into_bytes();
    out.extend_from_slice(json);
    out.push(b'}');
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::{ActivityResult, Entry, EntryContent, FailureKind, RunEvent};

    fn at(cursor: u64, last_commit: Option<u64>) -> RunPosition {
        RunPosition { cursor, last_commit: last_commit.map(CommitId::from_number) }
    }

    #[test]
    fn an_entry_gets_a_time_and_is_otherwise_unchanged() {
        let entry = encode_entry(Timestamp(5), "event", br#"{"signal":{"name":"n","payload":"a,b"}}"#);
        let later = with_timestamp(&entry, Timestamp(1_700_000_000_000));
        let expected = br#"{"at":1700000000000,"event":{"signal":{"name":"n","payload":"a,b"}}}"#;
        assert_eq!(&later[..], expected);
        for odd in ["", "null", r#"{"at":5}"#, r#"{"event":1,"at":5}"#] {
            assert_eq!(with_timestamp(&odd.into(), Timestamp(7)), odd.as_bytes());
        }
    }

    #[test]
    fn a_task_is_an_envelope_with_the_new_events_in_it() {
        let head = br#"{"job_id":"r!task","task_type":"workflow:order""#;
        let entry = encode_entry(Timestamp(5), "event", RunTimer::Timer.event(1).as_bytes());
        let task =
            task_envelope(head, br#","payload":1"#, at(3, Some(8)), [(4, &entry[..]), (5, &entry[..])]);
        let json: serde_json::Value = serde_json::from_slice(&task).unwrap();
        assert_eq!((json["cursor"].as_u64(), json["payload"].as_u64()), (Some(3), Some(1)));
        assert_eq!(json["lastCommit"], 8);
        assert_eq!(json["news"][1]["position"], 5);
        assert!(Entry::read(json["news"][0]["entry"].to_string().as_bytes()).is_ok());
        assert!(crate::Envelope::read(task).is_ok());
    }

    #[test]
    fn a_task_ends_with_the_entry_that_fills_it() {
        let heavy = encode_entry(
            Timestamp(5),
            "event",
            format!("\"{}\"", "x".repeat(MAX_TASK_EVENT_BYTES / 3)).as_bytes(),
        );
        let task = task_envelope(b"{\"a\":1", b"", at(0, None), (1..).map(|position| (position, &heavy[..])));
        let json: serde_json::Value = serde_json::from_slice(&task).unwrap();
        assert_eq!(json["news"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_run_receives_the_removal_of_an_activity() {
        let envelope = r#"{"job_id":"r!7","task_type":"t","run":"r","seq":7}"#;
        let delivery = removal_delivery(envelope.into(), Timestamp(5)).unwrap();
        assert_eq!((delivery.run.as_str(), delivery.seq), ("r", Some(7)));
        let EntryContent::Event(event) = Entry::read(&delivery.entry.bytes).unwrap().content else {
            panic!()
        };
        let RunEvent::ActivityDone { seq: 7, result: ActivityResult::Failed(failure) } = event else {
            panic!()
        };
        assert_eq!(failure.kind, FailureKind::Cancelled);
        assert!(removal_delivery(r#"{"job_id":"r","task_type":"t"}"#.into(), Timestamp(5)).is_none());
    }

    #[test]
    fn a_timer_delivers_an_event() {
        for timer in RunTimer::ALL {
            let entry = Entry::read(&encode_entry(Timestamp(5), "event", timer.event(7).as_bytes())).unwrap();
            let EntryContent::Event(event) = entry.content else { panic!() };
            let (RunEvent::TimerFired { seq } | RunEvent::ActivityDone { seq, .. }) = event else { panic!() };
            assert_eq!(seq, 7);
        }
    }
}
