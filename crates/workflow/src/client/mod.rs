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
use tidemill_core::store::Page;
use tidemill_core::store::runs::{ListRunsParams, RunInfo};
use tidemill_core::workflow::{Json, RunId};
use tidemill_core::{Client, Error};

pub use diagnose::{Diagnosis, RunProgress};
pub use error::RunError;
pub use handle::RunHandle;
pub use start::{OnConflict, StartRun};
pub(crate) use terminate::terminate;

use crate::definition::Workflow;

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

    /// A page of runs, newest first.
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

    async fn runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        self.store().list_runs(list).await
    }
}
