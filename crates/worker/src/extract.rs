//! What a handler takes beside its job: shared state and the job's context.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;

use crate::context::JobContext;

/// Something a handler can take as an argument after its job.
///
/// Looked up once, when the worker is built, so that a missing one is found there and a job pays for a clone
/// only.
pub trait Extract: Sized + Send + 'static {
    /// What is kept from the look-up.
    type Source: Send + Sync + 'static;

    /// Finds the source, or says what is missing.
    fn find(states: &States) -> Result<Self::Source, MissingState>;

    /// Makes the argument for one job.
    fn extract(source: &Self::Source, context: &JobContext) -> Self;
}

/// Shared state a handler takes: whatever was given to [`Worker::state`](crate::Worker::state), cloned.
#[derive(Debug, Clone, Copy)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    type Source = T;

    fn find(states: &States) -> Result<T, MissingState> {
        states.get().cloned().ok_or(MissingState(type_name::<T>()))
    }

    fn extract(source: &T, _: &JobContext) -> Self {
        Self(source.clone())
    }
}

impl Extract for JobContext {
    type Source = ();

    fn find(_: &States) -> Result<(), MissingState> {
        Ok(())
    }

    fn extract((): &(), context: &JobContext) -> Self {
        context.clone()
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

            fn extract(source: &Self::Source, context: &JobContext) -> Self {
                let ($($part,)*) = source;
                ($($part::extract($part, context),)*)
            }
        }
    };
}

extract_tuple!();
extract_tuple!(A);
extract_tuple!(A B);
extract_tuple!(A B C);
extract_tuple!(A B C D);

/// A handler wants state of this type, and nobody gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingState(pub &'static str);

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
