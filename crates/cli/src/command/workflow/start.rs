//! Starting runs and waiting for them.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tidemill::Client;
use tidemill::workflow::{
    Json, OnConflict, Route, RunHandle, RunId, StartWorkflows, Topic, Version, WorkflowName,
};

use crate::context::Context;
use crate::payload;
use crate::when;

/// How to start a run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The workflow's name
    workflow: WorkflowName,
    /// What it is given: JSON, @FILE or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "null")]
    input: String,
    /// The version of its code [default: the one workflows have that name none]
    #[arg(long)]
    version: Option<Version>,
    /// The run's id; starting it twice is starting it once
    #[arg(long, conflicts_with = "key")]
    id: Option<RunId>,
    /// An idempotency key: starting twice with it is one run
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    key: Option<String>,
    /// If there is a run with that key
    #[arg(long, value_enum, default_value_t = Conflict::UseExisting, requires = "key")]
    on_conflict: Conflict,
    /// Where its tasks go: workers that serve this route
    #[arg(long)]
    route: Option<Route>,
    /// What it can be found by; may be given again
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = super::attribute)]
    attributes: Vec<(Topic, Json)>,
    /// How long the run is kept after its end
    #[arg(long, value_name = "DURATION", value_parser = when::duration)]
    keep: Option<Duration>,
    /// Wait for its end and print its output, no longer than this if it is given
    #[arg(long, value_name = "DURATION", value_parser = when::duration, num_args = 0..=1, default_missing_value = "1y")]
    wait: Option<Duration>,
}

/// What to do if there is a run with the same key.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Conflict {
    /// Print its id
    UseExisting,
    /// Fail
    Reject,
    /// Terminate it if it is open, and start anew
    TerminateExisting,
    /// Start anew if it has ended
    StartAfterClose,
}

/// A run that was started, for programs.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    run: &'a RunId,
    created: bool,
}

pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let input = payload::read("input", &args.input, context.settings.limits.payload)?;
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
    let (run, created) = (handle.id(), handle.is_new());
    if args.wait.is_none() || context.out.is_json() {
        context.out.result(run, &Answer { run, created })?;
    }
    match args.wait {
        Some(limit) => print_result(&handle, Some(limit), context).await,
        None => Ok(()),
    }
}

pub(super) async fn wait(
    client: &Client,
    run: RunId,
    timeout: Option<Duration>,
    context: &Context,
) -> anyhow::Result<()> {
    print_result(&client.untyped_run(run), timeout, context).await
}

/// A run's output, for programs.
#[derive(Debug, Serialize)]
struct Output<'a> {
    run: &'a RunId,
    output: &'a RawValue,
}

async fn print_result(
    handle: &RunHandle<Box<RawValue>>,
    timeout: Option<Duration>,
    context: &Context,
) -> anyhow::Result<()> {
    let output = match timeout {
        Some(limit) => handle.result_within(limit).await?,
        None => handle.result().await?,
    };
    Ok(context.out.stored(output.get(), &Output { run: handle.id(), output: &output })?)
}

impl From<Conflict> for OnConflict {
    fn from(conflict: Conflict) -> Self {
        match conflict {
            Conflict::UseExisting => Self::UseExisting,
            Conflict::Reject => Self::Reject,
            Conflict::TerminateExisting => Self::TerminateExisting,
            Conflict::StartAfterClose => Self::StartAfterClose,
        }
    }
}
