//! Starting runs and waiting for their results.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tidemill::workflow::{
    Json, OnConflict, Route, RunHandle, RunId, StartWorkflows, Topic, Version, WorkflowName,
};

use super::RunArg;
use crate::context::Context;
use crate::payload;
use crate::time;

/// Flags of `workflow start`.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// Name of the workflow
    workflow: WorkflowName,
    /// Input of the run: JSON, @FILE or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "null")]
    input: String,
    /// Version of the workflow's code [default: the version of workflows that declare none]
    #[arg(long)]
    version: Option<Version>,
    /// Id of the run; starting the same id again starts no second run
    #[arg(long, conflicts_with = "key")]
    id: Option<RunId>,
    /// Idempotency key: starting with the same key again starts no second run
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    key: Option<String>,
    /// What to do if a run with this key exists
    #[arg(long, value_enum, default_value_t = ConflictArg::UseExisting, requires = "key")]
    on_conflict: ConflictArg,
    /// Route of the run's tasks: the workers that serve it
    #[arg(long)]
    route: Option<Route>,
    /// Search attribute; can be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = super::parse_attribute)]
    attributes: Vec<(Topic, Json)>,
    /// Time for which the run is kept after its end
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    keep: Option<Duration>,
    /// Wait until the run ends and print its output; with a value, at most this long
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration, num_args = 0..=1, default_missing_value = "1y")]
    wait: Option<Duration>,
}

/// What to do if a run with the same key exists.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ConflictArg {
    /// Print its id
    UseExisting,
    /// Fail
    Reject,
    /// Terminate it if it is open, and start a new run
    TerminateExisting,
    /// Start a new run if it has ended
    StartAfterClose,
}

/// A started run, as JSON.
#[derive(Debug, Serialize)]
struct StartedRun<'a> {
    run: &'a RunId,
    created: bool,
}

pub(super) async fn run(args: StartArgs, context: &Context) -> anyhow::Result<()> {
    let input = payload::read("input", &args.input, context.config.limits.payload)?;
    let client = context.client_or_new().await?;
    let mut start = client.untyped_workflow(args.workflow.as_str(), Json::from(input));
    start = start.on_conflict(args.on_conflict.into());
    if let Some(version) = &args.version {
        start = start.version(version.as_str());
    }
    if let Some(id) = &args.id {
        start = start.id(id.as_str());
    }
    if let Some(key) = &args.key {
        start = start.key(key);
    }
    if let Some(route) = &args.route {
        start = start.route(route.as_str());
    }
    if let Some(keep) = args.keep {
        start = start.keep(keep);
    }
    for (name, value) in &args.attributes {
        start = start.attribute(name.as_str(), value);
    }
    let handle = start.start().await?;
    let (run, created) = (handle.id(), handle.created());
    if args.wait.is_none() || context.printer.is_json() {
        context.printer.result(run, &StartedRun { run, created })?;
    }
    match args.wait {
        Some(limit) => print_result(&handle, Some(limit), context).await,
        None => Ok(()),
    }
}

pub(super) async fn wait(run: RunArg, timeout: Option<Duration>, context: &Context) -> anyhow::Result<()> {
    print_result(&run.find(&context.client().await?).await?, timeout, context).await
}

/// A run's output, as JSON.
#[derive(Debug, Serialize)]
struct RunOutput<'a> {
    run: &'a RunId,
    output: &'a RawValue,
}

async fn print_result(
    handle: &RunHandle<Box<RawValue>>,
    timeout: Option<Duration>,
    context: &Context,
) -> anyhow::Result<()> {
    let output = match timeout {
        Some(limit) => handle.wait_for(limit).await?,
        None => handle.wait().await?,
    };
    Ok(context.printer.stored(output.get(), &RunOutput { run: handle.id(), output: &output })?)
}

impl From<ConflictArg> for OnConflict {
    fn from(conflict: ConflictArg) -> Self {
        match conflict {
            ConflictArg::UseExisting => Self::UseExisting,
            ConflictArg::Reject => Self::Reject,
            ConflictArg::TerminateExisting => Self::TerminateExisting,
            ConflictArg::StartAfterClose => Self::StartAfterClose,
        }
    }
}
