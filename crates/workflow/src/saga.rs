//! Sagas: compensations that run in reverse order when a later step fails.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::definition::Activity;
use crate::error::WorkflowError;

type CompensationFuture = Pin<Box<dyn Future<Output = Result<(), WorkflowError>> + Send>>;
type CompensateFn = Box<dyn FnOnce(Ctx) -> CompensationFuture + Send>;

/// The compensations for what a workflow has done so far. They run only on request.
///
/// ```
/// # use tidemill_workflow::{Activity, Ctx, WorkflowError};
/// # const RESERVE: Activity<u64, u64> = Activity::new("reserve");
/// # const RELEASE: Activity<u64, ()> = Activity::new("release");
/// # const CHARGE: Activity<u64, ()> = Activity::new("charge");
/// async fn order(ctx: Ctx, amount: u64) -> Result<u64, WorkflowError> {
///     let mut saga = ctx.saga();
///     let done = async {
///         let seat = ctx.activity(&RESERVE, amount).await?;
///         saga.undo_with(&RELEASE, seat);
///         ctx.activity(&CHARGE, amount).await?;
///         Ok(seat)
///     };
///     let result = done.await;
///     saga.settle(result).await
/// }
/// ```
pub struct Saga {
    ctx: Ctx,
    compensations: Vec<CompensateFn>,
}

impl fmt::Debug for Saga {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saga").field("compensations", &self.compensations.len()).finish_non_exhaustive()
    }
}

/// Some compensations failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} could not be undone: {}", .0.len(), .0.join("; "))]
pub struct RollbackFailed(pub Vec<String>);

impl Saga {
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { ctx: ctx.shielded(), compensations: Vec::new() }
    }

    /// Adds an activity as a compensation.
    pub fn undo_with<I, O>(&mut self, activity: &Activity<I, O>, input: I)
    where
        I: Serialize + Send + 'static,
        O: DeserializeOwned + 'static,
    {
        let call = self.ctx.activity(activity, input);
        self.compensations.push(Box::new(move |_| call.map(|end| Ok(end.map(drop)?)).boxed()));
    }

    /// Adds a function as a compensation. Its context is shielded from cancellation.
    pub fn undo<C, F>(&mut self, compensate: C)
    where
        C: FnOnce(Ctx) -> F + Send + 'static,
        F: Future<Output = Result<(), WorkflowError>> + Send + 'static,
    {
        self.compensations.push(Box::new(move |ctx| compensate(ctx).boxed()));
    }

    /// Runs all compensations, the last one first. A failed compensation does not stop the others.
    ///
    /// # Errors
    /// [`RollbackFailed`] with the errors of the compensations that failed.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped call leaves the remaining compensations undone.
    pub async fn roll_back(mut self) -> Result<(), RollbackFailed> {
        let mut failed = Vec::new();
        while let Some(compensate) = self.compensations.pop() {
            if let Err(error) = compensate(self.ctx.clone()).await {
                failed.push(error.to_string());
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(RollbackFailed(failed)) }
    }

    /// Runs all compensations if the result is an error, and returns the result.
    ///
    /// # Errors
    /// The error of `result`. If compensations failed too, an error that names them.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped call leaves the remaining compensations undone.
    pub async fn settle<T>(self, result: Result<T, WorkflowError>) -> Result<T, WorkflowError> {
        match result {
            Err(error) if !error.is_continue_as_new() => match self.roll_back().await {
                Ok(()) => Err(error),
                Err(failed) => Err(WorkflowError::failed(format_args!("{error}; {failed}"))),
            },
            result => result,
        }
    }
}
