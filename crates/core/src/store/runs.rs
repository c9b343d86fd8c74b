//! Parameters and answers of the workflow verbs.
//!
//! A run is a row and a journal. Its tasks are jobs: the id of the job follows from that of the run ([`RunId::task`]), so
//! there is never more than one. Its activities are jobs too, which tell the run how they ended. Everything one verb does concerns one run and
//! what lies in its shard ([`RunId::root`]): what concerns a run elsewhere is a job of its own, made by the commit.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::{Due, JobRecord, NewJob};
use crate::clock::Timestamp;
use crate::envelope::Envelope;
use crate::name::{JobId, Queue};
use crate::workflow::{CommitId, Json, Requester, RunId, RunStatus, Topic, Version, WorkflowName};

/// How many news a task carries at most. A run that has more gets them with its next tasks.
pub const MAX_TASK_EVENTS: usize = 256;

/// How many bytes of news a task carries: it ends with the event by which its news come to so many. A worker claims many
/// tasks at once, so this is less than what one read of a journal may come to.
pub const MAX_TASK_EVENT_BYTES: usize = 1 << 20;

/// How many of the ids of what was delivered to a run are remembered however old they are: see [`Delivery::id`].
pub const MAX_REMEMBERED_DELIVERIES: usize = 1_000;

/// For how long ids of deliveries are remembered, unless a commit says otherwise: see [`Delivery::id`].
pub const DELIVERY_ID_RETENTION: Duration = Duration::from_secs(60 * 60);

/// A run to start.
#[derive(Debug, Clone)]
pub struct StartRunParams {
    /// Its identity.
    pub run: RunId,
    /// Its type.
    pub workflow: WorkflowName,
    /// The version of the code it is started for.
    pub version: Version,
    /// Where its tasks go.
    pub queue: Queue,
    /// Its journal from position 1 on: one entry, that it has started; more if it begins where another run was. Events
    /// behind `cursor` are new and get the store's time; the others keep theirs.
    pub journal: Vec<StoredEntry>,
    /// How far it has come: 0, or the last position that a commit of this journal consumed.
    pub cursor: u64,
    /// What it has asked for already; none for a run that begins at the beginning.
    pub effects: Vec<Effect>,
    /// The envelope of its tasks without the closing brace: see [`task_envelope`].
    pub task_head: Bytes,
    /// What the first task says beside that: fields, each with a comma before it.
    pub first_task_fields: Bytes,
    /// Keeps a second run like it from being started. The key's shard is the run's: see [`RunId::keyed`].
    pub key: Option<RunKey>,
    /// The run that is told how it ends.
    pub parent: Option<ParentRef>,
    /// How long it is kept when it has ended.
    pub keep: Duration,
    /// What it can be found by.
    pub attributes: BTreeMap<Topic, Json>,
}

/// Who is told how a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentRef {
    /// The parent.
    pub run: RunId,
    /// The parent's number for it.
    pub seq: u64,
}

/// What makes two runs the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunKey {
    /// The idempotency key, 1 to 256 bytes; keys of different workflows do not meet.
    pub key: String,
    /// What to do if there is a run with it.
    pub conflict: ConflictPolicy,
}

/// What to do when a run with the same key is there: open, or closed and still kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConflictPolicy {
    /// The caller gets that run, open or closed.
    #[default]
    UseExisting,
    /// The caller is told of it and nothing is started.
    Reject,
    /// The caller gets it if it is open. A closed one makes way: the key is the new run's from now on.
    StartAfterClose,
}

/// What starting a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartRunResult {
    /// It is new.
    Created,
    /// A run with its id, or this run with its key, was there already; nothing changed.
    Existing(RunId),
    /// This run with its key was there and the caller wants none then; nothing changed.
    Rejected(RunId),
}

/// One entry of a journal, as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// What a store has to know of it.
    pub kind: EntryKind,
    /// The entry as JSON: `{"at":…,"event":{…}}` or `{"at":…,"commit":{…}}`. The store that appends it writes its own time
    /// into it ([`with_timestamp`]): timers are counted from there, and a caller's idea of the time may be old.
    pub bytes: Bytes,
}

/// What every entry begins with; a number and a comma follow.
const AT: &[u8] = br#"{"at":"#;

/// The entry with this time in it. What is no entry stays as it is. Stores do the same where the bytes are.
pub fn with_timestamp(entry: &Bytes, now: Timestamp) -> Bytes {
    match entry.iter().position(|byte| *byte == b',') {
        Some(comma) if entry.starts_with(AT) => {
            [AT, now.0.to_string().as_bytes(), &entry[comma..]].concat().into()
        }
        _ => entry.clone(),
    }
}

/// What a store has to know of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// What a task did.
    Commit,
    /// Something that a command of this journal led to: an activity's end, a timer.
    CommandResult,
    /// Something that was said to the run. If the run continues as new before it has consumed it, it goes into the
    /// new journal.
    Message,
}

/// An event for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// For which run.
    pub run: RunId,
    /// The event's entry; not a commit.
    pub entry: StoredEntry,
    /// An event with an id is delivered once per run, however often it is sent. At most 128 bytes.
    ///
    /// An id is remembered for as long as its run is there, with one exception: when a run continues as new it forgets
    /// those that are older than its commit says ([`ContinueAsNew::id_retention`]) and not among its latest [`MAX_REMEMBERED_DELIVERIES`]. So there
    /// are never many more than one journal has entries, or than came in that time.
    pub id: Option<String>,
    /// The command it answers: the alarm with this number is dropped, if there is one.
    pub seq: Option<u64>,
}

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// It is in the journal, and the run has a task.
    Yes,
    /// It had been delivered before, whether or not the run has ended since; nothing changed.
    Duplicate,
    /// The run has ended, like this; nothing changed.
    Closed(RunStatus),
    /// There is no such run.
    NotFound,
}

/// What a task did, to be written in one step with the end of the task's lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitParams {
    /// Whose task it was.
    pub run: RunId,
    /// Its identity. The store keeps that of the run's last commit and writes it into the run's tasks.
    pub id: CommitId,
    /// How far the run had come when the task began. If that is not so any more, or the run has ended, the commit has
    /// no effect but that the task ends, and is answered as a lost lease.
    pub cursor: u64,
    /// The position of the last event it consumed: how far the run has come now.
    pub upto: u64,
    /// The commit's entry.
    pub entry: Bytes,
    /// What it led to.
    pub effects: Vec<Effect>,
    /// Whether the run goes on.
    pub then: AfterCommit,
}

/// How far a run has come. The cursor alone does not tell: a store that loses its last writes lets another worker commit
/// at the same cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunPosition {
    /// The position of the last event that a commit consumed.
    pub cursor: u64,
    /// That commit; none before the first.
    pub last_commit: Option<CommitId>,
}

/// Whether a run goes on after a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterCommit {
    /// It does. If there are events beyond what the commit consumed it has its next task at once.
    Running,
    /// It begins again with an empty journal. Positions go on; its alarms are dropped; messages that the commit did not
    /// consume follow the first entry, other events are dropped. It has its next task at once.
    ContinueAsNew(ContinueAsNew),
    /// It has ended. Its alarms are dropped.
    Close(CloseRun),
}

/// How a run begins again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinueAsNew {
    /// The first entry of the new journal.
    pub first: Bytes,
    /// For how long it remembers the ids of what was delivered to it: see [`Delivery::id`].
    pub id_retention: Duration,
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseRun {
    /// In which way; not [`RunStatus::Running`].
    pub status: RunStatus,
    /// Its output as JSON; empty if it has none.
    pub output: Bytes,
    /// What went wrong, if something did.
    pub error: Option<String>,
    /// What the parent is told. Only for a parent in the run's own shard: see [`Store::same_shard`](super::Store::same_shard).
    pub notify_parent: Option<Delivery>,
}

/// Something a task led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A job; its id is one of the run's own ([`RunId::part`]).
    Job {
        /// Where it goes.
        queue: Queue,
        /// The job; tracked, and without links.
        job: NewJob,
    },
    /// Such a job is not wanted any more: as [`Store::cancel`](super::Store::cancel), but that nobody is told if it
    /// was waiting.
    CancelJob(JobId),
    /// The run is to be told of this time. One that is due before all others is announced as
    /// [`Wake::DueEarlier`](super::Wake::DueEarlier) of the queue of the run's tasks.
    SetTimer {
        /// The number of the command.
        seq: u64,
        /// When.
        due: Due,
        /// Of what.
        timer: RunTimer,
    },
    /// It is not to be told of it any more.
    CancelTimer {
        /// The number of the command.
        seq: u64,
    },
    /// What the run can be found by, added to what there is.
    Attributes(BTreeMap<Topic, Json>),
    /// An answer that is kept for whoever asked; its id is one of the run's own ([`RunId::part`]). Whoever waits for
    /// it as for a chain is woken.
    Record(JobRecord),
}

/// What a run is told when a time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunTimer {
    /// That a timer has fired.
    Timer,
    /// That an activity has not ended in time.
    ScheduleToClose,
}

impl RunTimer {
    /// Every alarm.
    pub const ALL: [Self; 2] = [Self::Timer, Self::ScheduleToClose];

    /// What stands before and after the command's number in the event that says so. The entry is that event as any
    /// other: [`encode_entry`]. It is an [`EntryKind::CommandResult`].
    pub const fn event_parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Timer => (r#"{"timer_fired":{"seq":"#, "}}"),
            Self::ScheduleToClose => (
                r#"{"activity_done":{"seq":"#,
                r#","result":{"failed":{"message":"not done in time","kind":{"timed_out":"schedule_to_close"}}}}}"#,
            ),
        }
    }

    /// The event that says so.
    pub fn event(self, seq: u64) -> String {
        let (before, after) = self.event_parts();
        format!("{before}{seq}{after}")
    }

    /// A letter for it, as stores keep it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Timer => "t",
            Self::ScheduleToClose => "c",
        }
    }
}

/// What stands before and after the command's number in the event by which a run hears that an activity was taken away: by a
/// cancel, by a purge. Nobody will do it, so the run must not wait for it. It is an [`EntryKind::CommandResult`].
pub const REMOVED_EVENT_PARTS: (&str, &str) = (
    r#"{"activity_done":{"seq":"#,
    r#","result":{"failed":{"message":"removed from its queue","kind":"cancelled"}}}}"#,
);

/// What the run that waits for a job is told when the job was taken away; nothing, if none does. Stores do the same
/// where the bytes are.
pub fn removal_delivery(envelope: Bytes, now: Timestamp) -> Option<Delivery> {
    let envelope = Envelope::read(envelope).ok()?;
    let Requester { run, seq } = envelope.requester()?;
    let (before, after) = REMOVED_EVENT_PARTS;
    let entry = encode_entry(now, "event", format!("{before}{seq}{after}").as_bytes());
    let written = StoredEntry { kind: EntryKind::CommandResult, bytes: entry };
    Some(Delivery { run: run.clone(), entry: written, id: None, seq: Some(*seq) })
}

/// An end that is not a task's: somebody outside has decided it.
#[derive(Debug)]
pub struct TerminateParams<'a> {
    /// Which run.
    pub run: &'a RunId,
    /// How far the run had come when the caller looked at what it asks for. If it has come further, nothing changes.
    pub cursor: u64,
    /// What it leads to.
    pub effects: &'a [Effect],
    /// How it ends.
    pub close: &'a CloseRun,
}

/// A run, as it is now.
#[derive(Debug, Clone)]
pub struct RunInfo {
    /// Which run.
    pub run: RunId,
    /// Its type.
    pub workflow: WorkflowName,
    /// Its version.
    pub version: Version,
    /// Where it is.
    pub status: RunStatus,
    /// Where its tasks go.
    pub queue: Queue,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it ended.
    pub closed_at: Option<Timestamp>,
    /// How far it has come.
    pub cursor: u64,
    /// The last position of its journal.
    pub length: u64,
    /// The commit by which it came there; none before the first.
    pub last_commit: Option<CommitId>,
    /// The idempotency key it was started with.
    pub key: Option<String>,
    /// Whose child it is.
    pub parent: Option<ParentRef>,
    /// What it can be found by.
    pub attributes: BTreeMap<Topic, Json>,
    /// When its next alarm is due.
    pub next_timer: Option<Timestamp>,
    /// Its output as JSON; empty if it has none, or none yet.
    pub output: Bytes,
    /// What went wrong.
    pub error: Option<String>,
}

/// Which part of a journal to read.
#[derive(Debug)]
pub struct ReadJournalParams<'a> {
    /// Whose.
    pub run: &'a RunId,
    /// From this position on. The first is 1, or where the run last continued as new.
    pub from: u64,
    /// How many entries at most.
    pub limit: usize,
    /// The part ends with the entry by which its entries come to so many bytes. So it has at least one, if there is one;
    /// and if there are fewer than `limit` and they have fewer bytes, there are no more. Stores do not read on.
    pub bytes: usize,
}

/// How much room is left in a part of a journal.
#[derive(Debug, Clone, Copy)]
pub struct ReadBudget {
    entries: usize,
    bytes: usize,
}

impl ReadBudget {
    /// Room for so many entries, and for so many bytes: the last entry may go beyond these.
    pub fn new(entries: usize, bytes: usize) -> Self {
        Self { entries, bytes: bytes.max(1) }
    }

    /// Whether there is room for another entry.
    pub fn is_left(&self) -> bool {
        self.entries > 0 && self.bytes > 0
    }

    /// An entry takes its place.
    pub fn fill(&mut self, entry: &[u8]) {
        self.entries = self.entries.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(entry.len());
    }
}

/// Which ended runs to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneRunsParams {
    /// How many of each type are kept at most, however long they were to be kept.
    pub max_kept: u64,
    /// One that has ended less than this long ago is not removed for being one too many: whoever started it may not have
    /// seen how it ended, or may be about to start it again with its key.
    pub min_age: Duration,
}

/// Which runs to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct ListRunsParams {
    /// Of this type.
    pub workflow: Option<WorkflowName>,
    /// In this state.
    pub status: Option<RunStatus>,
    /// Started at this time or later.
    pub since: Option<Timestamp>,
    /// Started before this time.
    pub before: Option<Timestamp>,
    /// With this attribute.
    pub attribute: Option<(Topic, Json)>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// How many at most. A page may have fewer, even none, and still not be the last.
    pub limit: usize,
}

/// The envelope of a task: `head`, the fields of `opening`, how far the run has come, by which commit, and the events that are new since,
/// up to [`MAX_TASK_EVENTS`] and to the one by which they come to [`MAX_TASK_EVENT_BYTES`], oldest first, each as it is in the journal
/// with its position before it: `{"position":7,"entry":{…}}`. Stores do the same where the bytes are.
pub fn task_envelope<'a>(
    head: &[u8],
    opening: &[u8],
    at: RunPosition,
    news: impl IntoIterator<Item = (u64, &'a [u8])>,
) -> Bytes {
    let RunPosition { cursor, last_commit } = at;
    let commit = last_commit.map_or_else(String::new, |id| format!(r#","lastCommit":{id}"#));
    let mut out = [head, opening, format!(r#","cursor":{cursor}{commit},"news":["#).as_bytes()].concat();
    let mut room = ReadBudget::new(MAX_TASK_EVENTS, MAX_TASK_EVENT_BYTES);
    for (index, (position, entry)) in news.into_iter().enumerate() {
        if !room.is_left() {
            break;
        }
        room.fill(entry);
        let comma = if index > 0 { "," } else { "" };
        out.extend_from_slice(format!(r#"{comma}{{"position":{position},"entry":"#).as_bytes());
        out.extend_from_slice(entry);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    out.into()
}

/// An entry as it is in a journal; `kind` is `event` or `commit`.
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
    fn an_entry_is_stamped_and_else_as_it_was() {
        let entry = encode_entry(Timestamp(5), "event", br#"{"signal":{"name":"n","payload":"a,b"}}"#);
        let later = with_timestamp(&entry, Timestamp(1_700_000_000_000));
        let expected = br#"{"at":1700000000000,"event":{"signal":{"name":"n","payload":"a,b"}}}"#;
        assert_eq!(&later[..], expected);
        for odd in ["", "null", r#"{"at":5}"#, r#"{"event":1,"at":5}"#] {
            assert_eq!(with_timestamp(&odd.into(), Timestamp(7)), odd.as_bytes());
        }
    }

    #[test]
    fn a_task_is_an_envelope_with_the_news_in_it() {
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
    fn a_run_hears_of_an_activity_that_was_taken_away() {
        let envelope = r#"{"job_id":"r!7","task_type":"t","run":"r","seq":7}"#;
        let told = removal_delivery(envelope.into(), Timestamp(5)).unwrap();
        assert_eq!((told.run.as_str(), told.seq), ("r", Some(7)));
        let EntryContent::Event(event) = Entry::read(&told.entry.bytes).unwrap().content else { panic!() };
        let RunEvent::ActivityDone { seq: 7, result: ActivityResult::Failed(failure) } = event else {
            panic!()
        };
        assert_eq!(failure.kind, FailureKind::Cancelled);
        assert!(removal_delivery(r#"{"job_id":"r","task_type":"t"}"#.into(), Timestamp(5)).is_none());
    }

    #[test]
    fn an_alarm_says_an_event() {
        for alarm in RunTimer::ALL {
            let entry = Entry::read(&encode_entry(Timestamp(5), "event", alarm.event(7).as_bytes())).unwrap();
            let EntryContent::Event(event) = entry.content else { panic!() };
            let (RunEvent::TimerFired { seq } | RunEvent::ActivityDone { seq, .. }) = event else { panic!() };
            assert_eq!(seq, 7);
        }
    }
}
