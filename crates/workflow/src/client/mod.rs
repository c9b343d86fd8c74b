//! The typed client of workflows: starts runs, speaks to them, waits for them, looks at them.

mod control;
mod diagnose;
mod error;
mod handle;
mod holdup;
mod patience;
mod query;
mod reset;
mod start;
mod terminate;
mod update;

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tidemill_core::store::Page;
use tidemill_core::store::runs::{ListRunsParams, RunInfo};
use tidemill_core::workflow::{Json, RunId};
use tidemill_core::{Client, Error};

pub use diagnose::{Diagnosis, Why};
pub use error::RunError;
pub use handle::RunHandle;
pub use start::{OnConflict, Start};
pub(crate) use terminate::terminate;

use crate::definition::Workflow;

/// What a [`Client`] can do with workflows.
pub trait StartWorkflows {
    /// Prepares a run of `workflow`.
    fn workflow<I: Serialize, O>(&self, workflow: &Workflow<I, O>, input: I) -> Start<O>;

    /// Prepares a run of a workflow whose name is known only at run time. Its output is whatever JSON it returns.
    fn untyped_workflow(&self, name: &str, input: Json) -> Start<Box<RawValue>>;

    /// A handle to a run of `workflow` that was started elsewhere.
    fn run<I, O: DeserializeOwned>(&self, workflow: &Workflow<I, O>, run: RunId) -> RunHandle<O>;

    /// A handle to a run of a workflow that is not known here.
    fn untyped_run(&self, run: RunId) -> RunHandle<Box<RawValue>>;

    /// A page of runs, newest first.
    fn runs(&self, list: ListRunsParams) -> impl Future<Output = Result<Page<RunInfo>, Error>> + Send;
}

impl StartWorkflows for Client {
    fn workflow<I: Serialize, O>(&self, workflow: &Workflow<I, O>, input: I) -> Start<O> {
        let unwritable = |error| {
            Error::Invalid(format!("the input of workflow `{}` is not JSON: {error}", workflow.name()))
        };
        let input = Json::from_value(&input).map_err(unwritable);
        Start::new(self, workflow.name(), workflow.version_text(), input)
    }

    fn untyped_workflow(&self, name: &str, input: Json) -> Start<Box<RawValue>> {
        const ANY: Workflow<(), ()> = Workflow::new("any");
        Start::new(self, name, ANY.version_text(), Ok(input))
    }

    fn run<I, O: DeserializeOwned>(&self, _: &Workflow<I, O>, run: RunId) -> RunHandle<O> {
        RunHandle::new(self, run, false)
    }

    fn untyped_run(&self, run: RunId) -> RunHandle<Box<RawValue>> {
        RunHandle::new(self, run, false)
    }

    async fn runs(&self, list: ListRunsParams) -> Result<Page<RunInfo>, Error> {
        self.store().list_runs(list).await
    }
}
