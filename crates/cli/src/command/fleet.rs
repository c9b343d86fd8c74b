//! `tidemill fleet`: lists, shows and drains the workers of the fleet.

use std::process::ExitCode;

use serde::Serialize;
use tidemill::fleet::{WorkerKey, WorkerKind};
use tidemill::{Client, Error};

use crate::context::Context;
use crate::for_each_id::for_each_id;
use crate::output::worker::{WorkerView, facts, table};
use crate::pages;

/// Workers of the fleet (browsers and job workers): list, show, drain
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum FleetCommand {
    /// List workers
    #[command(after_help = "Example:\n  tidemill fleet list --kind chromium")]
    List {
        /// Only workers of this kind: chromium, firefox, webkit, jobs
        #[arg(long)]
        kind: Option<WorkerKind>,
        /// Maximum number of results
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Show one worker
    #[command(after_help = "Example:\n  tidemill fleet show chromium:abc123")]
    Show {
        /// Key of the worker
        #[arg(value_name = "KIND:NAME")]
        worker: WorkerKey,
    },
    /// Drain workers: they get no new work and stop when their current work has ended
    #[command(after_help = "Example:\n  tidemill fleet drain chromium:abc123")]
    Drain {
        /// Keys of the workers
        #[arg(value_name = "KIND:NAME", required = true)]
        workers: Vec<WorkerKey>,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill fleet list
  tidemill fleet drain chromium:abc123";

pub(crate) async fn run(command: FleetCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let client = context.client().await?;
    match command {
        FleetCommand::List { kind, limit } => list(kind.as_ref(), limit, &client, context).await,
        FleetCommand::Show { worker } => show(&worker, &client, context).await,
        FleetCommand::Drain { workers } => drain(&workers, &client, context).await,
    }
}

async fn list(
    kind: Option<&WorkerKind>,
    limit: usize,
    client: &Client,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let fleet = client.fleet();
    let page = |cursor, limit| fleet.workers(kind, pages::page_params(cursor, limit));
    let (found, more) = pages::first_items(limit, page).await?;
    let (views, now) = (found.iter().map(WorkerView::new).collect::<Vec<_>>(), client.now());
    context.list(&views, more, "nobody works here", |views| table(views, now))?;
    Ok(ExitCode::SUCCESS)
}

async fn show(worker: &WorkerKey, client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    let info = client.fleet().worker(worker).await?;
    let info = info.ok_or_else(|| Error::NotFound(format!("worker {worker}")))?;
    let view = WorkerView::new(&info);
    if context.printer.is_json() {
        context.printer.json(&view)?;
    } else {
        context.printer.table(&facts(&view, client.now()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The result of a drain, as JSON.
#[derive(Debug, Serialize)]
struct DrainResult<'a> {
    worker: &'a WorkerKey,
    result: &'static str,
}

async fn drain(workers: &[WorkerKey], client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    for_each_id(workers, async |worker| {
        let exists = client.fleet().drain(worker).await?;
        let (text, result) =
            if exists { ("is ordered to drain", "ordered") } else { ("not found", "not_found") };
        context.printer.result(format!("{worker} {text}"), &DrainResult { worker, result })?;
        Ok(exists)
    })
    .await
}
