//! `tidemill fleet`: looks at all who work, and has them end in order.

use std::process::ExitCode;

use serde::Serialize;
use tidemill::fleet::{ListWorkersParams, WorkerKey, WorkerKind};
use tidemill::{Client, Error};

use crate::browse;
use crate::context::Context;
use crate::output::member::{MemberView, facts, table};
use crate::several::each;

/// Look at the workers, browsers and processes that run jobs: list, show, drain
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    /// List everything that works
    #[command(after_help = "Example:\n  tidemill fleet list --kind chromium")]
    List {
        /// Of this kind only: chromium, firefox, webkit, jobs
        #[arg(long)]
        kind: Option<WorkerKind>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Show one worker
    #[command(after_help = "Example:\n  tidemill fleet show chromium:abc123")]
    Show {
        /// Which worker
        #[arg(value_name = "KIND:NAME")]
        worker: WorkerKey,
    },
    /// Give workers nothing new, and have them end when they have nothing left to do
    #[command(after_help = "Example:\n  tidemill fleet drain chromium:abc123")]
    Drain {
        /// Which workers
        #[arg(value_name = "KIND:NAME", required = true)]
        workers: Vec<WorkerKey>,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill fleet list
  tidemill fleet drain chromium:abc123";

pub(crate) async fn run(action: Action, context: &Context) -> anyhow::Result<ExitCode> {
    let client = context.client().await?;
    match action {
        Action::List { kind, limit } => list(kind.as_ref(), limit, &client, context).await,
        Action::Show { worker } => show(&worker, &client, context).await,
        Action::Drain { workers } => drain(&workers, &client, context).await,
    }
}

async fn list(
    kind: Option<&WorkerKind>,
    limit: usize,
    client: &Client,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let fleet = client.store().fleet();
    let page = |cursor, limit| fleet.list_workers(ListWorkersParams { kind, cursor, limit });
    let (found, more) = browse::first(limit, page).await?;
    let (views, now) = (found.iter().map(MemberView::of).collect::<Vec<_>>(), client.store().clock().now());
    context.list((&views, more), "nobody works here", |views| table(views, now))?;
    Ok(ExitCode::SUCCESS)
}

async fn show(worker: &WorkerKey, client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    let info = client.store().fleet().get_worker(worker).await?;
    let info = info.ok_or_else(|| Error::NotFound(format!("worker {worker}")))?;
    let view = MemberView::of(&info);
    if context.out.is_json() {
        context.out.json(&view)?;
    } else {
        context.out.table(&facts(&view, client.store().clock().now()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What ordering a worker to drain did, for programs.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    worker: &'a WorkerKey,
    result: &'static str,
}

async fn drain(workers: &[WorkerKey], client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    each(workers, async |worker| {
        let there = client.store().fleet().drain(worker).await?;
        let (text, result) =
            if there { ("is ordered to drain", "ordered") } else { ("not found", "not_found") };
        context.out.result(format!("{worker} {text}"), &Answer { worker, result })?;
        Ok(there)
    })
    .await
}
