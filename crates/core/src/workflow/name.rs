//! The names a workflow has: of its runs, of its type, of its versions, of what is said to it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use crate::name::{InvalidName, JobId, KEYED, Kind, PART, Queue, QueueName, name, root, within};

name!(
    /// The identity of a run. A UUID when Tidemill makes it, any short printable text when someone else does. No `~`: what
    /// belongs to a run are jobs whose ids begin with its own, and `~` is how the steps of a chain are told apart. Nor does
    /// it end as the id of a task does: a message that starts a run must not pass for the task of another.
    RunId, "run id",
    |name| {
        (1..=RunId::MAX_LEN).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_graphic() && b != b'~')
            && !name.ends_with("!task")
    },
    "1 to 100 printable ASCII characters without spaces and `~`, and not `!task` at its end"
);

name!(
    /// The type of a workflow. No colon and no slash: `workflow:{name}:{route}` must be read one way only.
    WorkflowName, "workflow", |name| name.len() <= 64 && within(name, "._-"),
    "1 to 64 of the characters a-z A-Z 0-9 . _ -"
);

name!(
    /// A way a workflow's tasks take of their own: `workflow:{name}:{route}`. Not the last part of a key that belongs
    /// to the workflow itself.
    Route, "route",
    |name| name.len() <= 48 && within(name, "._-") && !RESERVED.contains(&name),
    "1 to 48 of the characters a-z A-Z 0-9 . _ -, and not scheduled, dlq, paused, blocked, cancelled, dropped, \
     leases, running or lock"
);

/// What ends the names of keys that belong to a queue.
const RESERVED: [&str; 9] =
    ["scheduled", "dlq", "paused", "blocked", "cancelled", "dropped", "leases", "running", "lock"];

/// What the name of a queue of workflow tasks begins with.
pub const WORKFLOW_QUEUE: &str = "workflow/";

impl WorkflowName {
    /// The queue of its tasks: `workflow/order`, or `workflow/order/eu-west` with a route.
    pub fn queue(&self, route: Option<&Route>) -> Queue {
        let mut name = format!("{WORKFLOW_QUEUE}{}", self.0);
        if let Some(route) = route {
            name = format!("{name}/{route}");
        }
        Queue::at_least_once(QueueName::of_workflow(&name))
    }
}

name!(
    /// A version of a workflow's code. Versions are told apart, not ordered.
    Version, "version", |name| within(name, "._-+"),
    "1 to 128 of the characters a-z A-Z 0-9 . _ - +"
);

name!(
    /// The name of a signal, a query, an update, a patch or a search attribute.
    Topic, "name", |name| within(name, "._-/:"),
    "1 to 128 of the characters a-z A-Z 0-9 . _ - / :"
);

impl RunId {
    /// The longest id of a run, so that those of its parts are valid too.
    pub const MAX_LEN: usize = 100;

    /// What a run, its activities, its children and its key have in common: where a store has shards they lie in one.
    pub fn root(&self) -> &str {
        root(&self.0)
    }

    /// The id of something that belongs to the run: `order-7!3` is the activity with number 3.
    pub fn part(&self, part: impl fmt::Display) -> JobId {
        let id = format!("{}{PART}{part}", self.0);
        JobId::new(&id)
            .unwrap_or_else(|_| JobId::new(&self.hashed(&id)).unwrap_or_else(|_| JobId::generate()))
    }

    /// The id of a child that was given no other.
    pub fn child(&self, seq: u64) -> Self {
        let id = format!("{}{PART}{seq}", self.0);
        // Children of children of children: at some depth the line is told by a hash.
        Self::new(&id).unwrap_or_else(|_| Self(self.hashed(&id).into()))
    }

    fn hashed(&self, id: &str) -> String {
        format!("{}{PART}{:016x}", self.root(), fnv(id.as_bytes()))
    }

    /// A new identity for a run that is started with a key: one that lies in the key's shard.
    pub fn keyed(workflow: &WorkflowName, key: &str) -> Self {
        let place = fnv(format!("{workflow} {key}").as_bytes());
        Self(format!("{place:016x}{KEYED}{}", Self::generate()).into())
    }

    /// The job that the run's tasks are: `order-7!task`.
    pub fn task(&self) -> JobId {
        JobId::of_task(&self.0)
    }

    /// A new identity: a UUID of version 7, so that ids made later sort later.
    pub fn generate() -> Self {
        let mut buffer = uuid::Uuid::encode_buffer();
        Self((&*uuid::Uuid::now_v7().hyphenated().encode_lower(&mut buffer)).into())
    }
}

/// A hash that is the same in every process and every version (FNV-1a).
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A name that is read is checked: a damaged journal must not smuggle in what no caller may say.
macro_rules! readable {
    ($($type:ident),+) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_str(NameVisitor(Self::new))
            }
        }
    )+};
}

/// Reads a name without a copy on the way: a journal has one in every other entry.
struct NameVisitor<N>(fn(&str) -> Result<N, InvalidName>);

impl<N> Visitor<'_> for NameVisitor<N> {
    type Value = N;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<N, E> {
        (self.0)(text).map_err(E::custom)
    }
}

readable!(RunId, Route, WorkflowName, Version, Topic, Kind, QueueName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_has_no_colon_in_its_name_so_that_its_routes_can() {
        assert!(WorkflowName::new("order-processing").is_ok());
        let eu = Route::new("eu-west").unwrap();
        let queue = WorkflowName::new(&"o".repeat(64)).unwrap().queue(Some(&eu));
        assert!(QueueName::new(queue.name.as_str()).is_ok());
        assert!(Route::new("dlq").is_err());
        for bad in ["", "order:eu", "order/eu", "a b", "{a}"] {
            assert!(WorkflowName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_belongs_to_a_run_has_its_root() {
        let run = RunId::keyed(&WorkflowName::new("order").unwrap(), "7");
        let mut line = run.clone();
        for depth in 0..60 {
            assert_eq!(line.root(), run.root(), "{depth}");
            assert_eq!(line.part(depth).root(), run.root());
            let child = line.child(1);
            assert_ne!(child, line);
            line = child;
        }
        assert!(RunId::new("order~1").is_err());
    }

    #[test]
    fn a_name_is_checked_when_it_is_read() {
        assert!(serde_json::from_str::<RunId>(r#""run-7""#).is_ok());
        let error = serde_json::from_str::<RunId>(r#""run 7""#).unwrap_err().to_string();
        assert!(error.contains("run id \"run 7\" is not valid"), "{error}");
    }
}
