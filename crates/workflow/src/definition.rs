//! What a workflow is made of, declared once as constants and used by worker, client and other workflows, so that
//! no call site has a name or a type of its own.

use std::fmt;
use std::marker::PhantomData;

/// The version of a workflow that does not say one.
const FIRST_VERSION: &str = "1.0.0";

macro_rules! named {
    ($(#[$doc:meta])* $type:ident<$($parameter:ident),+>, $punctuation:literal) => {
        $(#[$doc])*
        pub struct $type<$($parameter),+> {
            name: &'static str,
            types: PhantomData<fn($($parameter),+)>,
        }

        impl<$($parameter),+> $type<$($parameter),+> {
            /// Gives it its name. A name that is not valid does not compile in a constant.
            pub const fn new(name: &'static str) -> Self {
                assert!(is_name(name, $punctuation), "a name has 1 to 128 of a-z A-Z 0-9 and some punctuation");
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

/// Where activities go that do not say otherwise.
pub const ACTIVITIES: &str = "activities";

/// An activity: a job that takes an `I` and returns an `O`. Its name is the job's kind.
pub struct Activity<I, O> {
    name: &'static str,
    queue: &'static str,
    types: PhantomData<fn(I, O)>,
}

impl<I, O> Activity<I, O> {
    /// Gives it its name. A name that is not valid does not compile in a constant.
    pub const fn new(name: &'static str) -> Self {
        assert!(is_name(name, b"._-/:"), "a name has 1 to 128 of a-z A-Z 0-9 and some punctuation");
        Self { name, queue: ACTIVITIES, types: PhantomData }
    }

    /// Sets the queue that its jobs go to, and that workers which know it serve.
    pub const fn queue(mut self, queue: &'static str) -> Self {
        assert!(is_name(queue, b"._-/"), "a queue has 1 to 128 of a-z A-Z 0-9 . _ - /");
        self.queue = queue;
        self
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The queue its jobs go to.
    pub const fn queue_name(&self) -> &'static str {
        self.queue
    }
}

impl<I, O> fmt::Debug for Activity<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Activity").field(&self.name).finish()
    }
}

named!(
    /// A signal: a `T` sent to a run that does not answer.
    Signal<T>, b"._-/:"
);

named!(
    /// A query: a question `I` about a run, answered with an `O` without changing it.
    Query<I, O>, b"._-/:"
);

named!(
    /// An update: a request `I` to a run, answered with an `O`.
    Update<I, O>, b"._-/:"
);

/// A workflow: a durable function from an `I` to an `O`.
pub struct Workflow<I, O> {
    name: &'static str,
    version: &'static str,
    types: PhantomData<fn(I, O)>,
}

impl<I, O> Workflow<I, O> {
    /// Gives it its name. A name that is not valid does not compile in a constant.
    pub const fn new(name: &'static str) -> Self {
        assert!(is_name(name, b"._-"), "a workflow's name has 1 to 128 of a-z A-Z 0-9 . _ -");
        Self { name, version: FIRST_VERSION, types: PhantomData }
    }

    /// Sets its version. Runs keep the version they were started with, and no worker takes a version it does not
    /// know.
    pub const fn version(mut self, version: &'static str) -> Self {
        assert!(is_name(version, b"._-+"), "a version has 1 to 128 of a-z A-Z 0-9 . _ - +");
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

/// The rules of the core's names, where a constant can be checked against them.
const fn is_name(name: &str, punctuation: &[u8]) -> bool {
    let bytes = name.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        if !bytes[index].is_ascii_alphanumeric() && !holds(punctuation, bytes[index]) {
            return false;
        }
        index += 1;
    }
    !bytes.is_empty() && bytes.len() <= 128
}

const fn holds(bytes: &[u8], wanted: u8) -> bool {
    let mut index = 0;
    while index < bytes.len() {
        if bytes[index] == wanted {
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
            assert_eq!(is_name(name, b"._-/:"), Kind::new(name).is_ok(), "{name:?}");
            assert_eq!(is_name(name, b"._-/:"), Topic::new(name).is_ok(), "{name:?}");
            assert_eq!(is_name(name, b"._-"), WorkflowName::new(name).is_ok(), "{name:?}");
            assert_eq!(is_name(name, b"._-+"), Version::new(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn a_workflow_without_a_version_has_the_first() {
        const ORDER: Workflow<u8, u8> = Workflow::new("order");
        assert_eq!(format!("{ORDER:?}"), r#"Workflow("order", "1.0.0")"#);
    }
}
