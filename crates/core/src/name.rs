//! Validated names that cross process boundaries.
//!
//! A value of these types is valid: it cannot break out of a Redis key, an SQL parameter or a line
//! in a terminal.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::workflow::RunId;

/// The error for a name that violates the rules of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {shown:?} is not valid: {rule}")]
pub struct InvalidName {
    what: &'static str,
    shown: String,
    rule: &'static str,
}

impl InvalidName {
    pub(crate) fn new(what: &'static str, name: &str, rule: &'static str) -> Self {
        // A hostile name may be a megabyte long; the error message must stay short.
        let shown = name.chars().take(64).collect();
        Self { what, shown, rule }
    }

    /// What the name is of: a queue, a job id, a kind.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// The beginning of the rejected name.
    pub fn name(&self) -> &str {
        &self.shown
    }

    /// The rule that it violates.
    pub fn rule(&self) -> &'static str {
        self.rule
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $valid:expr, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Validates `name`.
            ///
            /// # Errors
            /// [`InvalidName`] if it violates the rules of this type.
            pub fn new(name: &str) -> Result<Self, InvalidName> {
                let valid: fn(&str) -> bool = $valid;
                if valid(name) { Ok(Self(name.into())) } else { Err(InvalidName::new($what, name, $rule)) }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = InvalidName;
            fn from_str(name: &str) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }
    };
}
pub(crate) use name;

pub(crate) fn within(name: &str, punctuation: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || punctuation.as_bytes().contains(&b))
}

name!(
    /// The name of a queue. A colon is not allowed, because `queue:{name}:scheduled` must not equal
    /// the key of another queue.
    QueueName, "queue", |name| within(name, "._-/"),
    "1 to 128 of the characters a-z A-Z 0-9 . _ - /"
);

name!(
    /// The kind of a job, which selects its handler: the envelope's `task_type`.
    Kind, "kind", |name| within(name, "._-/:"),
    "1 to 128 of the characters a-z A-Z 0-9 . _ - / :"
);

name!(
    /// The id of a job: a UUID if Tidemill generates it, else any short printable text.
    JobId, "job id", |name| (1..=128).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()),
    "1 to 128 printable ASCII characters without spaces"
);

name!(
    /// The prefix of every Redis key and channel, such as `tidemill:` or `msaas:dev:`. May be
    /// empty.
    Namespace, "namespace",
    |name| name.len() <= 128 && name.bytes().all(|b| b.is_ascii_graphic() && b != b'{' && b != b'}'),
    "at most 128 printable ASCII characters without spaces or braces"
);

name!(
    /// The id of a process that holds leases: `{hostname}:{pid}:{index}:{boot}`. A restarted
    /// container often has the same hostname and pid; the random boot part tells it from the
    /// process that died.
    HolderId, "worker id", |name| (1..=256).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()),
    "1 to 256 printable ASCII characters without spaces"
);

impl QueueName {
    /// Creates the name of a workflow's queue, valid because names of workflows and routes are
    /// restricted.
    pub(crate) fn from_workflow(name: &str) -> Self {
        Self(name.into())
    }
}

impl Kind {
    /// Creates the kind of a workflow's tasks, valid because names of workflows are restricted.
    pub(crate) fn from_workflow(kind: &str) -> Self {
        Self(kind.into())
    }
}

/// Separates a chain's id from a step number.
const STEP_SEPARATOR: char = '~';

/// Separates a run's id from the name of its part, a word or a number. Only runs may create ids of
/// this form.
pub(crate) const PART_SEPARATOR: char = '!';

/// The name of a run's task among its parts.
const TASK_PART: &str = "task";

/// Separates the shard key of a run that was started with an idempotency key from its unique part.
pub(crate) const KEY_SEPARATOR: char = '@';

/// The part of an id that selects its shard.
pub(crate) fn root(id: &str) -> &str {
    id.split([PART_SEPARATOR, KEY_SEPARATOR]).next().unwrap_or_default()
}

impl JobId {
    /// The longest id of a chain, so that the ids of its steps are valid too.
    pub const MAX_CHAIN_LEN: usize = 128 - "~4294967295".len();

    /// The chain of this job: the id of its first job. A job that never continued is a chain of
    /// one.
    pub fn chain(&self) -> Self {
        match self.split() {
            Some((chain, _)) => Self(chain.into()),
            None => self.clone(),
        }
    }

    /// The step of this job in its chain: 0 for the first, whose id is that of the chain.
    pub fn step(&self) -> u32 {
        self.split().map_or(0, |(_, step)| step)
    }

    /// The id of step `step` of this job's chain.
    pub fn at_step(&self, step: u32) -> Self {
        let chain = self.split().map_or(self.as_str(), |(chain, _)| chain);
        if step == 0 { Self(chain.into()) } else { Self(format!("{chain}{STEP_SEPARATOR}{step}").into()) }
    }

    /// The part of the id that selects the shard: equal for all steps of a chain, and for a run and
    /// all its parts.
    pub fn root(&self) -> &str {
        root(self.split().map_or(self.as_str(), |(chain, _)| chain))
    }

    /// The id of a run's task: `order-7!task`. Valid because ids of runs are restricted.
    pub(crate) fn from_task(run: &str) -> Self {
        Self(format!("{run}{PART_SEPARATOR}{TASK_PART}").into())
    }

    /// The run that this job is a part of, as its task, an activity or a remote command: `order-7`
    /// for `order-7!task`, `order-7!3` and `order-7!c4`. Other callers may not create such ids.
    pub fn run(&self) -> Option<RunId> {
        RunId::new(self.part()?.0).ok()
    }

    /// Whether it is the task of a run.
    pub fn is_task(&self) -> bool {
        self.part().is_some_and(|(_, part)| part == TASK_PART)
    }

    /// Whether it is an activity of a run: its part name is a number.
    pub fn is_activity(&self) -> bool {
        self.part().is_some_and(|(_, part)| part.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Whether it is a task or a remote command of a run, without which the run cannot continue.
    pub fn is_run_internal(&self) -> bool {
        self.part().is_some() && !self.is_activity()
    }

    /// Splits `order-7!3` into the run `order-7` and the part `3`.
    fn part(&self) -> Option<(&str, &str)> {
        let (run, part) = self.0.rsplit_once(PART_SEPARATOR)?;
        let is_part_name = part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        (is_part_name && !run.is_empty() && !part.is_empty()).then_some((run, part))
    }

    /// Splits `order-7~2` into the chain `order-7` and the step 2.
    fn split(&self) -> Option<(&str, u32)> {
        let (chain, step) = self.0.rsplit_once(STEP_SEPARATOR)?;
        let canonical = !chain.is_empty() && !step.starts_with(['0', '+']);
        Some((chain, step.parse().ok().filter(|_| canonical)?))
    }

    /// A new UUID of version 7, so that later ids sort after earlier ones.
    pub fn generate() -> Self {
        let mut buffer = uuid::Uuid::encode_buffer();
        Self((&*uuid::Uuid::now_v7().hyphenated().encode_lower(&mut buffer)).into())
    }
}

impl HolderId {
    /// Creates the id of a process. Characters of `hostname` that are not allowed are removed
    /// instead of rejected, because the user did not choose it for Tidemill.
    pub fn from_process(hostname: &str, pid: u32, index: u32) -> Self {
        let host: String = hostname.chars().filter(|c| c.is_ascii_graphic()).take(128).collect();
        let boot = fastrand::u32(..);
        Self(format!("{host}:{pid}:{index}:{boot:08x}").into())
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("tidemill:".into())
    }
}

/// What a queue promises for each of its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarantee {
    /// The claim removes the job from the queue: a crash loses it, and it never runs twice by
    /// itself.
    AtMostOnce,
    /// The claim leases the job: after a crash it is returned to the queue, so it may run again.
    AtLeastOnce,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AtMostOnce => "at_most_once",
            Self::AtLeastOnce => "at_least_once",
        })
    }
}

impl FromStr for Guarantee {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text {
            "at_most_once" => Ok(Self::AtMostOnce),
            "at_least_once" => Ok(Self::AtLeastOnce),
            _ => Err(InvalidName::new("delivery", text, "at_most_once or at_least_once")),
        }
    }
}

/// A queue: its name and its guarantee. Two queues with one name and different guarantees are
/// different queues, as a list and a stream are in Redis.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Queue {
    /// The name.
    pub name: QueueName,
    /// The guarantee.
    #[serde(rename = "delivery")]
    pub guarantee: Guarantee,
}

impl Queue {
    /// The at-least-once queue `name`.
    pub fn at_least_once(name: QueueName) -> Self {
        Self { name, guarantee: Guarantee::AtLeastOnce }
    }

    /// The at-most-once queue `name`.
    pub fn at_most_once(name: QueueName) -> Self {
        Self { name, guarantee: Guarantee::AtMostOnce }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.guarantee {
            Guarantee::AtLeastOnce => write!(f, "{}", self.name),
            Guarantee::AtMostOnce => write!(f, "{} (at most once)", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_names_that_could_break_out_of_a_key() {
        for bad in ["", "a b", "a:b", "a{b}", "ä", "a\n", &"x".repeat(129)] {
            assert!(QueueName::new(bad).is_err(), "{bad:?}");
        }
        assert!(QueueName::new("jobs.generic").is_ok());
        assert!(Kind::new("email:send").is_ok());
    }

    #[test]
    fn an_error_names_the_thing_the_value_and_the_rule_in_one_short_line() {
        let error = QueueName::new(&"é".repeat(1 << 20)).unwrap_err().to_string();
        assert!(error.starts_with("queue \"é") && error.len() < 400, "{error}");
    }

    #[test]
    fn what_belongs_to_a_run_says_so() {
        let id = |text| JobId::new(text).unwrap();
        let run = RunId::new("order-7!3").unwrap();
        assert_eq!((run.task(), run.task().run()), (id("order-7!3!task"), Some(run.clone())));
        assert!(run.task().is_task() && run.task().is_run_internal());
        assert_eq!((run.part(4).run(), run.part(4).is_task()), (Some(run.clone()), false));
        assert!(!run.part(4).is_run_internal() && run.part("c4").is_run_internal());
        for nobodys in ["order-7", "!task", "order-7!", "Hello!World", "a!b-c"] {
            assert_eq!((id(nobodys).run(), id(nobodys).is_run_internal()), (None, false), "{nobodys}");
        }
        assert!(RunId::new("order-7!task").is_err());
    }

    #[test]
    fn ids_made_later_sort_later() {
        let ids: Vec<_> = (0..1000).map(|_| JobId::generate()).collect();
        assert!(ids.is_sorted());
    }
}
