//! What a handler takes beside its job: shared state and the job's context.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::future::{Future, ready};

use crate::error::BuildError;
use crate::handler::context::JobContext;
use crate::handler::fail::Fail;

/// Something a handler can take as an argument after its job.
///
/// Looked up once, when the worker is built, so that a missing one is found there and a job pays for a clone
/// only.
pub trait Extract: Sized + Send + 'static {
    /// What is kept from the look-up.
    type Source: Send + Sync + 'static;

    /// Finds the source, or says what is missing.
    fn find(states: &StateMap) -> Result<Self::Source, MissingState>;

    /// Makes the argument for one job. What takes time or may fail happens in the future, which is part of the attempt:
    /// it is polled when the payload has been read, and dropped with the attempt.
    fn extract(
        source: &Self::Source,
        context: &JobContext,
    ) -> impl Future<Output = Result<Self, Fail>> + Send + use<Self>;
}

/// Shared state a handler takes: whatever was given to [`WorkerBuilder::state`](crate::WorkerBuilder::state), cloned.
#[derive(Debug, Clone, Copy)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    type Source = T;

    fn find(states: &StateMap) -> Result<T, MissingState> {
        let argument = || format!("State<{}>", type_name::<T>());
        states
            .get()
            .cloned()
            .ok_or_else(|| MissingState { argument: argument(), builder_call: ".state(…)" })
    }

    fn extract(source: &T, _: &JobContext) -> impl Future<Output = Result<Self, Fail>> + Send + use<T> {
        ready(Ok(Self(source.clone())))
    }
}

impl Extract for JobContext {
    type Source = ();

    fn find(_: &StateMap) -> Result<(), MissingState> {
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

            fn find(states: &StateMap) -> Result<Self::Source, MissingState> {
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
    pub argument: String,
    /// How it is given.
    pub builder_call: &'static str,
}

impl MissingState {
    /// It is missing to the handler of this kind.
    pub fn into_build_error(self, kind: &str) -> BuildError {
        BuildError::MissingState {
            kind: kind.to_owned(),
            argument: self.argument,
            builder_call: self.builder_call,
        }
    }
}

/// The shared state of a worker, one value per type.
#[derive(Default)]
pub struct StateMap {
    by_type: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

impl StateMap {
    /// The state of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.by_type.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Adds state; `false` if there was one of this type already.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, state: T) -> bool {
        self.by_type.insert(TypeId::of::<T>(), Box::new(state)).is_none()
    }
}
