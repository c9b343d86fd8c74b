//! Declarations of workflows, activities, signals, queries and updates. Each is a constant that
//! workers, clients and other workflows share, so no call site repeats a name or a type.

use std::fmt;
use std::marker::PhantomData;

/// The version of a workflow that sets none.
const DEFAULT_VERSION: &str = "1.0.0";

macro_rules! declare_named {
    ($(#[$doc:meta])* $type:ident<$($parameter:ident),+>, $punctuation:literal) => {
        $(#[$doc])*
        pub struct $type<$($parameter),+> {
            name: &'static str,
            types: PhantomData<fn($($parameter),+)>,
        }

        impl<$($parameter),+> $type<$($parameter),+> {
            /// Creates it with this name. In a constant, an invalid name is a compile error.
            pub const fn new(name: &'static str) -> Self {
                assert!(is_valid_name(name, $punctuation), "a name has 1 to 128 of a-z A-Z 0-9 and some punctuation");
                Self { name, types: PhantomData }
            }

            /// Its name.
            pub const fn name(&self) -> &'static str {
                self.name
            }
        }

        impl<$($parameter),+> fmt::Debug for $type<$($parameter),+> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($type)).field(&self.name).finish()
            }
        }
    };
}

/// The queue of activities that set none.
pub const DEFAULT_ACTIVITY_QUEUE: &str = "activities";

/// An activity: a job that takes an `I` and returns an `O`. Its name is the job's kind.
pub struct Activity<I, O> {
    name: &'static str,
    queue: &'static str,
    types: PhantomData<fn(I, O)>,
}

impl<I, O> Activity<I, O> {
    /// Creates an activity with this name. In a constant, an invalid name is a compile error.
    pub const fn new(name: &'static str) -> Self {
        assert!(is_valid_name(name, b"._-/:"), "a name has 1 to 128 of a-z A-Z 0-9 and some punctuation");
        Self { name, queue: DEFAULT_ACTIVITY_QUEUE, types: PhantomData }
    }

    /// Sets the queue of its jobs. Workers that register the activity serve this queue.
    pub const fn queue(mut self, queue: &'static str) -> Self {
        assert!(is_valid_name(queue, b"._-/"), "a queue has 1 to 128 of a-z A-Z 0-9 . _ - /");
        self.queue = queue;
        self
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The queue of its jobs.
    pub const fn queue_name(&self) -> &'static str {
        self.queue
    }
}

impl<I, O> fmt::Debug for Activity<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Activity").field(&self.name).finish()
    }
}

declare_named!(
    /// A signal: a message of type `T` to a run, without an answer.
    Signal<T>, b"._-/:"
);

declare_named!(
    /// A query: reads a run's state. Takes an `I`, returns an `O` and does not change the run.
    Query<I, O>, b"._-/:"
);

declare_named!(
    /// An update: a request of type `I` to a run, answered with an `O`.
    Update<I, O>, b"._-/:"
);

/// A workflow: a durable function from an `I` to an `O`.
pub struct Workflow<I, O> {
    name: &'static str,
    version: &'static str,
    types: PhantomData<fn(I, O)>,
}

impl<I, O> Workflow<I, O> {
    /// Creates a workflow with this name. In a constant, an invalid name is a compile error.
    pub const fn new(name: &'static str) -> Self {
        assert!(is_valid_name(name, b"._-"), "a workflow's name has 1 to 128 of a-z A-Z 0-9 . _ -");
        Self { name, version: DEFAULT_VERSION, types: PhantomData }
    }

    /// Sets its version. A run keeps the version it was started with, and a worker runs only the
    /// versions it has code for.
    pub const fn version(mut self, version: &'static str) -> Self {
        assert!(is_valid_name(version, b"._-+"), "a version has 1 to 128 of a-z A-Z 0-9 . _ - +");
        self.version = version;
        self
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its version, as text.
    pub const fn version_text(&self) -> &'static str {
        self.version
    }
}

impl<I, O> fmt::Debug for Workflow<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workflow").field(&self.name).field(&self.version).finish()
    }
}

/// Core's rules for names, as a `const fn` so that constants are checked at compile time.
const fn is_valid_name(name: &str, punctuation: &[u8]) -> bool {
    let bytes = name.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        if !bytes[index].is_ascii_alphanumeric() && !contains_byte(punctuation, bytes[index]) {
            return false;
        }
        index += 1;
    }
    !bytes.is_empty() && bytes.len() <= 128
}

const fn contains_byte(bytes: &[u8], byte: u8) -> bool {
    let mut index = 0;
    while index < bytes.len() {
        if bytes[index] == byte {
            return true;
        }
        index += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use tidemill_core::Kind;
    use tidemill_core::workflow::{Topic, Version, WorkflowName};

    use super::*;

    #[test]
    fn constants_follow_the_rules_of_the_core() {
        for name in ["", "order", "a.b_c-d", "email:send", "a/b", "1.0.0+rc", "a b", "ä", &"x".repeat(129)] {
            assert_eq!(is_valid_name(name, b"._-/:"), Kind::new(name).is_ok(), "{name:?}");
            assert_eq!(is_valid_name(name, b"._-/:"), Topic::new(name).is_ok(), "{name:?}");
            assert_eq!(is_valid_name(name, b"._-"), WorkflowName::new(name).is_ok(), "{name:?}");
            assert_eq!(is_valid_name(name, b"._-+"), Version::new(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn a_workflow_without_a_version_has_the_first() {
        const ORDER: Workflow<u8, u8> = Workflow::new("order");
        assert_eq!(format!("{ORDER:?}"), r#"Workflow("order", "1.0.0")"#);
    }
}
