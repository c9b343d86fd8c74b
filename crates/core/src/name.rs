//! Names that cross process boundaries, checked once where they enter.
//!
//! A name that has its type is valid: it cannot break out of a Redis key, an SQL parameter or a terminal line.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::workflow::RunId;

/// A name that does not follow the rules of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {shown:?} is not valid: {rule}")]
pub struct InvalidName {
    what: &'static str,
    shown: String,
    rule: &'static str,
}

impl InvalidName {
    pub(crate) fn new(what: &'static str, name: &str, rule: &'static str) -> Self {
        // A hostile name may be a megabyte long; an error message must not be.
        let shown = name.chars().take(64).collect();
        Self { what, shown, rule }
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $valid:expr, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks `name` against the rules and keeps it.
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
    /// The name of a queue. No colon: `queue:{name}:scheduled` must not be a queue's own key as well.
    QueueName, "queue", |name| within(name, "._-/"),
    "1 to 128 of the characters a-z A-Z 0-9 . _ - /"
);

name!(
    /// What a job does: selects the handler. The envelope's `task_type`.
    Kind, "kind", |name| within(name, "._-/:"),
    "1 to 128 of the characters a-z A-Z 0-9 . _ - / :"
);

name!(
    /// The identity of a job: a UUID when Tidemill makes it, any short printable text when someone else does.
    JobId, "job id", |name| (1..=128).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()),
    "1 to 128 printable ASCII characters without spaces"
);

name!(
    /// A plain prefix of every key and channel in Redis, such as `tidemill:` or `msaas:dev:`. May be empty.
    Namespace, "namespace",
    |name| name.len() <= 128 && name.bytes().all(|b| b.is_ascii_graphic() && b != b'{' && b != b'}'),
    "at most 128 printable ASCII characters without spaces or braces"
);

name!(
    /// The identity of a worker process: `{hostname}:{pid}:{index}:{boot}`. The boot id keeps a restarted
    /// container, which often has the same hostname and pid, from passing for the one that died.
    HolderId, "worker id", |name| (1..=256).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()),
    "1 to 256 printable ASCII characters without spaces"
);

impl QueueName {
    /// The names of workflows and routes are such that this is valid.
    pub(crate) fn of_workflow(name: &str) -> Self {
        Self(name.into())
    }
}

impl Kind {
    /// The names of workflows are such that this is valid.
    pub(crate) fn of_workflow(kind: &str) -> Self {
        Self(kind.into())
    }
}

/// Stands between a chain's id and the number of a step in it.
const STEP: char = '~';

/// Stands between a run's id and what belongs to it: a word or a number. An id that ends so is a run's to give.
pub(crate) const PART: char = '!';

/// What a run's task is called among what belongs to it.
const TASK: &str = "task";

/// Stands between where a run lies and what tells it from others there.
pub(crate) const KEYED: char = '@';

/// What decides in which shard something lies.
pub(crate) fn root(id: &str) -> &str {
    id.split([PART, KEYED]).next().unwrap_or_default()
}

impl JobId {
    /// The longest id a chain may have, so that the ids of its steps are valid too.
    pub const MAX_CHAIN_LEN: usize = 128 - "~4294967295".len();

    /// The chain this job belongs to: the id of its first job. A job that never continued is a chain of one.
    pub fn chain(&self) -> Self {
        match self.split() {
            Some((chain, _)) => Self(chain.into()),
            None => self.clone(),
        }
    }

    /// Which step of its chain this job is: 0 for the first, whose id is the chain's.
    pub fn step(&self) -> u32 {
        self.split().map_or(0, |(_, step)| step)
    }

    /// The id of step `step` of this job's chain.
    pub fn at_step(&self, step: u32) -> Self {
        let chain = self.split().map_or(self.as_str(), |(chain, _)| chain);
        if step == 0 { Self(chain.into()) } else { Self(format!("{chain}{STEP}{step}").into()) }
    }

    /// What decides in which shard the job lies: of a chain and its steps, of a run and what belongs to it, the same.
    pub fn root(&self) -> &str {
        root(self.split().map_or(self.as_str(), |(chain, _)| chain))
    }

    /// The id of a run's task: `order-7!task`. A run's id is such that this is valid.
    pub(crate) fn of_task(run: &str) -> Self {
        Self(format!("{run}{PART}{TASK}").into())
    }

    /// The run this job belongs to, as its task, an activity or an errand: `order-7` of `order-7!task`, `order-7!3` and
    /// `order-7!c4`. Nobody else may give a job such an id.
    pub fn run(&self) -> Option<RunId> {
        RunId::new(self.part()?.0).ok()
    }

    /// Whether it is the task of a run.
    pub fn is_task(&self) -> bool {
        self.part().is_some_and(|(_, part)| part == TASK)
    }

    /// Whether it is an activity of a run: those have numbers.
    pub fn is_activity(&self) -> bool {
        self.part().is_some_and(|(_, part)| part.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Whether it is what a run goes on by, its task or an errand, and nothing that the run can do without.
    pub fn is_run_internal(&self) -> bool {
        self.part().is_some() && !self.is_activity()
    }

    /// `order-7!3` is what `order-7` has the number 3 for.
    fn part(&self) -> Option<(&str, &str)> {
        let (run, part) = self.0.rsplit_once(PART)?;
        let is_word = part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        (is_word && !run.is_empty() && !part.is_empty()).then_some((run, part))
    }

    /// `order-7~2` is step 2 of `order-7`.
    fn split(&self) -> Option<(&str, u32)> {
        let (chain, step) = self.0.rsplit_once(STEP)?;
        let canonical = !chain.is_empty() && !step.starts_with(['0', '+']);
        Some((chain, step.parse().ok().filter(|_| canonical)?))
    }

    /// A new identity: a UUID of version 7, so that ids made later sort later.
    pub fn generate() -> Self {
        let mut buffer = uuid::Uuid::encode_buffer();
        Self((&*uuid::Uuid::now_v7().hyphenated().encode_lower(&mut buffer)).into())
    }
}

impl HolderId {
    /// Names a process. `hostname` is cleaned of what a name may not hold rather than refused, because
    /// nobody chooses it for us.
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

/// What a queue promises about each of its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarantee {
    /// Taken off the queue when claimed: a crash loses it, and it never runs twice by itself.
    AtMostOnce,
    /// Leased when claimed: a crash brings it back, so it may run again.
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

/// A queue: its name and its delivery guarantee. Two queues of one name and different guarantees are two
/// queues, as a list and a stream are in Redis.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Queue {
    /// What it is called.
    pub name: QueueName,
    /// What it promises.
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
