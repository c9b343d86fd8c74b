//! The arguments that a handler takes after its job: shared state and the job's context.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::future::{Future, ready};

use crate::error::BuildError;
use crate::handler::context::JobContext;
use crate::handler::fail::Fail;

/// An argument that a handler can take after its job.
///
/// The source is looked up once, when the worker is built. A missing source is an error at that
/// point, and a job pays only for a clone.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    label = "this argument is not `State<T>`, `JobContext` or another `Extract`",
    note = "the first argument of a handler is its job; wrap shared state in `State<…>` and give it to \
            `WorkerBuilder::state`"
)]
pub trait Extract: Sized + Send + 'static {
    /// The result of the lookup.
    type Source: Send + Sync + 'static;

    /// Looks up the source.
    ///
    /// # Errors
    /// Fails if the builder was not given what the argument needs.
    fn find(states: &StateMap) -> Result<Self::Source, MissingState>;

    /// Creates the argument for one job. Slow or fallible work belongs in the returned future,
    /// which is part of the attempt: it is polled after the payload is parsed and dropped with the
    /// attempt.
    fn extract(
        source: &Self::Source,
        context: &JobContext,
    ) -> impl Future<Output = Result<Self, Fail>> + Send + use<Self>;
}

/// A clone of the shared state that was given to
/// [`WorkerBuilder::state`](crate::WorkerBuilder::state).
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

/// A handler's argument has no source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingState {
    /// The type of the argument.
    pub argument: String,
    /// The builder method that provides it.
    pub builder_call: &'static str,
}

impl MissingState {
    /// The error for the handler of this kind.
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
    /// The value of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.by_type.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Adds a value; `false` if there is one of this type already.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, state: T) -> bool {
        self.by_type.insert(TypeId::of::<T>(), Box::new(state)).is_none()
    }
}
