//! What a handler takes beside its job: shared state and the job's context.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::future::{Future, ready};

use crate::build::BuildError;
use crate::context::JobContext;
use crate::fail::Fail;

/// Something a handler can take as an argument after its job.
///
/// Looked up once, when the worker is built, so that a missing one is found there and a job pays for a clone
/// only.
pub trait Extract: Sized + Send + 'static {
    /// What is kept from the look-up.
    type Source: Send + Sync + 'static;

    /// Finds the source, or says what is missing.
    fn find(states: &States) -> Result<Self::Source, MissingState>;

    /// Makes the argument for one job. What takes time or may fail happens in the future, which is part of the attempt:
    /// it is polled when the payload has been read, and dropped with the attempt.
    fn extract(
        source: &Self::Source,
        context: &JobContext,
    ) -> impl Future<Output = Result<Self, Fail>> + Send + use<Self>;
}

/// Shared state a handler takes: whatever was given to [`Worker::state`](crate::Worker::state), cloned.
#[derive(Debug, Clone, Copy)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    type Source = T;

    fn find(states: &States) -> Result<T, MissingState> {
        let what = || format!("State<{}>", type_name::<T>());
        states.get().cloned().ok_or_else(|| MissingState { what: what(), remedy: ".state(…)" })
    }

    fn extract(source: &T, _: &JobContext) -> impl Future<Output = Result<Self, Fail>> + Send + use<T> {
        ready(Ok(Self(source.clone())))
    }
}

impl Extract for JobContext {
    type Source = ();

    fn find(_: &States) -> Result<(), MissingState> {
        Ok(())
    }

    fn extract((): &(), context: &JobContext) -> impl Future<Output = Result<Self, Fail>> + Send + use<> {
        ready(Ok(context.clone()))
    }
}

macro_rules! extract_tuple {
    ($($part:ident)*) => {
        #[allow(non_snake_case, unused_variables, clippy::unused_unit)]
        impl<$($part: Extract),*> Extract for ($($part,)*) {
            type Source = ($($part::Source,)*);

            fn find(states: &States) -> Result<Self::Source, MissingState> {
                Ok(($($part::find(states)?,)*))
            }

            fn extract(
                source: &Self::Source,
                context: &JobContext,
            ) -> impl Future<Output = Result<Self, Fail>> + Send + use<$($part),*> {
                let ($($part,)*) = source;
                let ($($part,)*) = ($($part::extract($part, context),)*);
                async move { Ok(($($part.await?,)*)) }
            }
        }
    };
}

extract_tuple!();
extract_tuple!(A);
extract_tuple!(A B);
extract_tuple!(A B C);
extract_tuple!(A B C D);

/// A handler wants something that nobody gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingState {
    /// What it wants.
    pub what: String,
    /// How it is given.
    pub remedy: &'static str,
}

impl MissingState {
    /// It is missing to the handler of this kind.
    pub fn to(self, kind: &str) -> BuildError {
        BuildError::MissingState { kind: kind.to_owned(), what: self.what, remedy: self.remedy }
    }
}

/// The shared state of a worker, one value per type.
#[derive(Default)]
pub struct States {
    by_type: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

impl States {
    /// The state of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.by_type.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Adds state; `false` if there was one of this type already.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, state: T) -> bool {
        self.by_type.insert(TypeId::of::<T>(), Box::new(state)).is_none()
    }
}
