//! The argument that names a run: its id, or its workflow and key.

use serde_json::value::RawValue;
use tidemill::Client;
use tidemill::workflow::{RunHandle, RunId, StartWorkflows, WorkflowName};

use crate::error::CliError;

/// A run.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArg {
    /// Id of the run
    #[arg(required_unless_present = "key", conflicts_with_all = ["key", "workflow"])]
    run: Option<RunId>,
    #[command(flatten)]
    key: KeyArg,
}

/// A run by its key.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyArg {
    /// Idempotency key that the run was started with, instead of its id
    #[arg(long, requires = "workflow")]
    key: Option<String>,
    /// Workflow of the run with this key
    #[arg(long = "type", value_name = "WORKFLOW", requires = "key")]
    workflow: Option<WorkflowName>,
}

impl RunArg {
    /// A handle to the run. Whether it exists is known only if it was named by its key.
    pub(super) async fn find(&self, client: &Client) -> anyhow::Result<RunHandle<Box<RawValue>>> {
        let run = match (&self.run, self.key.find(client).await?) {
            (Some(run), _) => run.clone(),
            (None, Some(run)) => run,
            (None, None) => {
                return Err(CliError::usage("name the run by its id, or by --type and --key").into());
            }
        };
        Ok(client.untyped_run_handle(run))
    }
}

impl KeyArg {
    /// The run with this key; `None` if no key was given.
    pub(super) async fn find(&self, client: &Client) -> anyhow::Result<Option<RunId>> {
        let (Some(key), Some(workflow)) = (&self.key, &self.workflow) else { return Ok(None) };
        let found = client.untyped_run_by_key(workflow.as_str(), key).await?;
        let missing = || {
            CliError::failed(format!("no run of workflow {workflow} has the key {key:?}"))
                .hint(format!("`tidemill workflow list --type {workflow}` shows its runs"))
        };
        Ok(Some(found.ok_or_else(missing)?.id().clone()))
    }
}
