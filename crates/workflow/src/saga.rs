//! Sagas: undoing what was done, in reverse, when a later step fails.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::definition::Activity;
use crate::ending::WorkflowError;

type Undoing = Pin<Box<dyn Future<Output = Result<(), WorkflowError>> + Send>>;
type Compensation = Box<dyn FnOnce(Ctx) -> Undoing + Send>;

/// Compensations for what a workflow has done so far. Nothing is undone unless it is asked for.
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
    compensations: Vec<Compensation>,
}

impl fmt::Debug for Saga {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saga").field("compensations", &self.compensations.len()).finish_non_exhaustive()
    }
}

/// Some of what was done could not be undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} could not be undone: {}", .0.len(), .0.join("; "))]
pub struct RollbackFailed(pub Vec<String>);

impl Saga {
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self { ctx: ctx.shielded(), compensations: Vec::new() }
    }

    /// Runs this activity if what has been done is to be undone.
    pub fn undo_with<I, O>(&mut self, activity: &Activity<I, O>, input: I)
    where
        I: Serialize + Send + 'static,
        O: DeserializeOwned + 'static,
    {
        let call = self.ctx.activity(activity, input);
        self.compensations.push(Box::new(move |_| call.map(|end| Ok(end.map(drop)?)).boxed()));
    }

    /// Runs this code if what has been done is to be undone. Its context is shielded from cancellation.
    pub fn undo<C, F>(&mut self, compensate: C)
    where
        C: FnOnce(Ctx) -> F + Send + 'static,
        F: Future<Output = Result<(), WorkflowError>> + Send + 'static,
    {
        self.compensations.push(Box::new(move |ctx| compensate(ctx).boxed()));
    }

    /// Undoes everything, the last first. One that fails does not keep the others from being tried.
    pub async fn roll_back(mut self) -> Result<(), RollbackFailed> {
        let mut failed = Vec::new();
        while let Some(compensate) = self.compensations.pop() {
            if let Err(error) = compensate(self.ctx.clone()).await {
                failed.push(error.to_string());
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(RollbackFailed(failed)) }
    }

    /// Undoes everything if the result is an error, and returns the result.
    pub async fn settle<T>(self, result: Result<T, WorkflowError>) -> Result<T, WorkflowError> {
        match result {
            Err(error) if !error.is_continue_as_new() => match self.roll_back().await {
                Ok(()) => Err(error),
                Err(rest) => Err(WorkflowError::failed(format_args!("{error}; {rest}"))),
            },
            result => result,
        }
    }
}
