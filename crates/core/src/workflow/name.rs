//! Names of workflows: of runs, types, versions, routes and topics.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use crate::name::{
    InvalidName, JobId, KEY_SEPARATOR, Kind, PART_SEPARATOR, Queue, QueueName, name, root, within,
};

name!(
    /// The id of a run: a UUID if Tidemill generates it, else any short printable text. It contains
    /// no `~`, which separates the steps of a chain, because ids of the run's jobs begin with its
    /// id. It does not end like the id of a task, because a message that starts a run must not be
    /// mistaken for a task.
    RunId, "run id",
    |name| {
        (1..=RunId::MAX_LEN).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_graphic() && b != b'~')
            && !name.ends_with("!task")
    },
    "1 to 100 printable ASCII characters without spaces and `~`, and not `!task` at its end"
);

name!(
    /// The name of a workflow. Colons and slashes are not allowed, so that
    /// `workflow:{name}:{route}` is unambiguous.
    WorkflowName, "workflow", |name| name.len() <= 64 && within(name, "._-"),
    "1 to 64 of the characters a-z A-Z 0-9 . _ -"
);

name!(
    /// A separate route for tasks of a workflow: `workflow:{name}:{route}`. Must not equal the last
    /// part of a key that belongs to the workflow itself.
    Route, "route",
    |name| name.len() <= 48 && within(name, "._-") && !RESERVED_ROUTES.contains(&name),
    "1 to 48 of the characters a-z A-Z 0-9 . _ -, and not scheduled, dlq, paused, blocked, cancelled, dropped, \
     leases, running or lock"
);

/// The suffixes of keys that belong to a queue.
const RESERVED_ROUTES: [&str; 9] =
    ["scheduled", "dlq", "paused", "blocked", "cancelled", "dropped", "leases", "running", "lock"];

/// The prefix of queues with workflow tasks.
pub const WORKFLOW_QUEUE: &str = "workflow/";

impl WorkflowName {
    /// The queue of its tasks: `workflow/order`, or `workflow/order/eu-west` with a route.
    pub fn queue(&self, route: Option<&Route>) -> Queue {
        let mut name = format!("{WORKFLOW_QUEUE}{}", self.0);
        if let Some(route) = route {
            name = format!("{name}/{route}");
        }
        Queue::at_least_once(QueueName::from_workflow(&name))
    }
}

name!(
    /// The version of a workflow's code. Versions are compared for equality only.
    Version, "version", |name| within(name, "._-+"),
    "1 to 128 of the characters a-z A-Z 0-9 . _ - +"
);

name!(
    /// The name of a signal, a query, an update, a patch or a search attribute.
    Topic, "name", |name| within(name, "._-/:"),
    "1 to 128 of the characters a-z A-Z 0-9 . _ - / :"
);

impl RunId {
    /// The longest id of a run, so that the ids of its parts are valid too.
    pub const MAX_LEN: usize = 100;

    /// The part of the id that selects the shard: equal for a run, its activities, its children and
    /// its key.
    pub fn root(&self) -> &str {
        root(&self.0)
    }

    /// The id of a part of the run: `order-7!3` is the activity with number 3.
    pub fn part(&self, part: impl fmt::Display) -> JobId {
        let id = format!("{}{PART_SEPARATOR}{part}", self.0);
        JobId::new(&id)
            .unwrap_or_else(|_| JobId::new(&self.hashed(&id)).unwrap_or_else(|_| JobId::generate()))
    }

    /// The id of a child without an explicit id.
    pub fn child(&self, seq: u64) -> Self {
        let id = format!("{}{PART_SEPARATOR}{seq}", self.0);
        // A deeply nested child has a hash instead of the full path.
        Self::new(&id).unwrap_or_else(|_| Self(self.hashed(&id).into()))
    }

    fn hashed(&self, id: &str) -> String {
        format!("{}{PART_SEPARATOR}{:016x}", self.root(), fnv(id.as_bytes()))
    }

    /// A new id for a run with an idempotency key, in the shard of the key.
    pub fn keyed(workflow: &WorkflowName, key: &str) -> Self {
        let shard_key = fnv(format!("{workflow} {key}").as_bytes());
        Self(format!("{shard_key:016x}{KEY_SEPARATOR}{}", Self::generate()).into())
    }

    /// The id of the run's task: `order-7!task`.
    pub fn task(&self) -> JobId {
        JobId::from_task(&self.0)
    }

    /// A new UUID of version 7, so that later ids sort after earlier ones.
    pub fn generate() -> Self {
        let mut buffer = uuid::Uuid::encode_buffer();
        Self((&*uuid::Uuid::now_v7().hyphenated().encode_lower(&mut buffer)).into())
    }
}

/// A hash that is equal in all processes and versions (FNV-1a).
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Names are validated when they are read: a damaged journal must not introduce names that no
/// caller may use.
macro_rules! impl_deserialize {
    ($($type:ident),+) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_str(NameVisitor(Self::new))
            }
        }
    )+};
}

/// Reads a name without an intermediate copy, because every other journal entry contains one.
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

impl_deserialize!(RunId, Route, WorkflowName, Version, Topic, Kind, QueueName);

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
        let mut run_at_depth = run.clone();
        for depth in 0..60 {
            assert_eq!(run_at_depth.root(), run.root(), "{depth}");
            assert_eq!(run_at_depth.part(depth).root(), run.root());
            let child = run_at_depth.child(1);
            assert_ne!(child, run_at_depth);
            run_at_depth = child;
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
