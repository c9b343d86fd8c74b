//! The typed client of workflows: starts runs, sends them messages, waits for them, lists them.

mod control;
mod diagnose;
mod error;
mod explain;
mod handle;
mod query;
mod reset;
mod start;
mod terminate;
mod timeout;
mod update;

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tidemill_core::retry::until_answered;
use tidemill_core::store::Page;
use tidemill_core::store::runs::{ListRunsParams, RunInfo};
use tidemill_core::workflow::{Json, RunId, WorkflowName};
use tidemill_core::{Client, Error};

pub use diagnose::{Diagnosis, RunProgress};
pub use error::RunError;
pub use handle::RunHandle;
pub use start::{OnConflict, StartRun};
pub(crate) use terminate::terminate;

use crate::definition::Workflow;
use crate::task::check_key;

/// Extends [`Client`] with workflows.
pub trait StartWorkflows {
    /// Prepares to start a run of `workflow`.
    fn workflow<I: Serialize, O>(&self, workflow: &Workflow<I, O>, input: I) -> StartRun<O>;

    /// Prepares to start a run of a workflow whose name is known only at run time. Its output is
    /// raw JSON.
    fn untyped_workflow(&self, name: &str, input: Json) -> StartRun<Box<RawValue>>;

    /// A handle to an existing run of `workflow`.
    fn run_handle<I, O: DeserializeOwned>(&self, workflow: &Workflow<I, O>, run: RunId) -> RunHandle<O>;

    /// A handle to an existing run of an unknown workflow.
    fn untyped_run_handle(&self, run: RunId) -> RunHandle<Box<RawValue>>;

    /// A handle to the run of `workflow` that was started with this key, open or closed; `None` if
    /// there is none. If several were, the latest.
    ///
    /// ```
    /// # use tidemill_workflow::{RunError, StartWorkflows, Workflow};
    /// const ORDER: Workflow<u64, String> = Workflow::new("order");
    ///
    /// # async fn cancel(client: tidemill_core::Client) -> Result<(), RunError> {
    /// if let Some(run) = client.run_by_key(&ORDER, "order-7").await? {
    ///     run.cancel().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidName`] if the name of the workflow is not valid, [`Error::Invalid`] if the key
    /// is not; otherwise the store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    fn run_by_key<I, O: DeserializeOwned>(
        &self,
        workflow: &Workflow<I, O>,
        key: &str,
    ) -> impl Future<Output = Result<Option<RunHandle<O>>, Error>> + Send;

    /// Like [`run_by_key`](Self::run_by_key), for a workflow whose name is known only at run time.
    ///
    /// # Errors
    /// As [`run_by_key`](Self::run_by_key).
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    fn untyped_run_by_key(
        &self,
        workflow: &str,
        key: &str,
    ) -> impl Future<Output = Result<Option<RunHandle<Box<RawValue>>>, Error>> + Send;

    /// A page of runs, newest first.
    ///
    /// # Errors
    /// The store's error.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    fn runs(&self, list: ListRunsParams) -> impl Future<Output = Result<Page<RunInfo>, Error>> + Send;
}

impl StartWorkflows for Client {
    fn workflow<I: Serialize, O>(&self, workflow: &Workflow<I, O>, input: I) -> StartRun<O> {
        let invalid = |error| {
            Error::Invalid(format!("the input of workflow `{}` is not JSON: {error}", workflow.name()))
        };
        let input = Json::from_value(&input).map_err(invalid);
        StartRun::new(self, workflow.name(), workflow.version_text(), input)
    }

    fn untyped_workflow(&self, name: &str, input: Json) -> StartRun<Box<RawValue>> {
        const ANY: Workflow<(), ()> = Workflow::new("any");
        StartRun::new(self, name, ANY.version_text(), Ok(input))
    }

    fn run_handle<I, O: DeserializeOwned>(&self, _: &Workflow<I, O>, run: RunId) -> RunHandle<O> {
        RunHandle::new(self, run, false)
    }

    fn untyped_run_handle(&self, run: RunId) -> RunHandle<Box<RawValue>> {
        RunHandle::new(self, run, false)
    }

    fn run_by_key<I, O: DeserializeOwned>(
        &self,
        workflow: &Workflow<I, O>,
        key: &str,
    ) -> impl Future<Output = Result<Option<RunHandle<O>>, Error>> + Send {
        let name = workflow.name();
        async move { Ok(find_run(self, name, key).await?.map(|run| RunHandle::new(self, run, false))) }
    }

    async fn untyped_run_by_key(
        &self,
        workflow: &str,
        key: &str,
    ) -> Result<Option<RunHandle<Box<RawValue>>>, Error> {
        Ok(find_run(self, workflow, key).await?.map(|run| RunHandle::new(self, run, false)))
    }

    async fn runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        until_answered(self.store().clock(), || self.store().list_runs(list.clone())).await
    }
}

/// The run with a key.
async fn find_run(client: &Client, workflow: &str, key: &str) -> Result<Option<RunId>, Error> {
    let (workflow, store) = (WorkflowName::new(workflow)?, client.store());
    check_key(key)?;
    until_answered(store.clock(), || store.find_run(&workflow, key)).await
}
