//! `tidemill dlq`: lists, shows, redrives and drops dead letters.

use std::process::ExitCode;

use serde::Serialize;
use tidemill::job::JobState;
use tidemill::store::JobInfo;
use tidemill::{Client, DeadLetter, DeadLetterFilter, Error, JobId, Kind, Queue, QueueName, Timestamp};

use crate::confirm::confirm;
use crate::context::Context;
use crate::error::CliError;
use crate::output::job::{JobView, facts};
use crate::output::{Cell, TextTable, printable, thousands, time::relative};
use crate::pages::{self, FoundJobs, JobQuery, queue_handle};

/// Dead letters: list, show, redrive, drop
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum DlqCommand {
    /// List dead jobs and the reasons
    #[command(after_help = "Example:\n  tidemill dlq list --queue mail --reason max_attempts_exceeded")]
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// Maximum number of results
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Show all data of one dead job
    #[command(after_help = "Example:\n  tidemill dlq show 01985a4e-8c5f-7cc2-a3b9-1c8e5d0c7f11")]
    Show {
        /// Id of the job
        job: JobId,
    },
    /// Redrive dead jobs: enqueue them again with no attempts counted
    #[command(
        after_help = "Examples:\n  tidemill dlq redrive --kind send_email --error 'connection refused'\n  tidemill dlq redrive --all"
    )]
    Redrive(SelectionArgs),
    /// Delete dead jobs permanently
    #[command(after_help = "Example:\n  tidemill dlq drop --queue mail --reason invalid_envelope --yes")]
    Drop {
        #[command(flatten)]
        selection: SelectionArgs,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill dlq list
  tidemill dlq redrive --queue mail --reason max_attempts_exceeded";

/// A filter for dead letters: all conditions must hold.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only dead letters of this queue
    #[arg(long)]
    queue: Option<QueueName>,
    /// Only dead letters of this kind
    #[arg(long)]
    kind: Option<Kind>,
    /// Only dead letters with this reason
    #[arg(long)]
    reason: Option<String>,
    /// Only dead letters whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

/// A selection of dead letters: ids, a filter, or all with an explicit flag.
#[derive(Debug, clap::Args)]
pub(crate) struct SelectionArgs {
    /// Ids of the jobs
    jobs: Vec<JobId>,
    #[command(flatten)]
    filter: FilterArgs,
    /// All dead letters
    #[arg(long, conflicts_with_all = ["jobs", "queue", "kind", "reason", "error"])]
    all: bool,
}

impl SelectionArgs {
    fn describe(&self) -> String {
        match self.jobs.len() {
            0 if self.all => "all dead letters".to_owned(),
            0 => "every dead letter that matches".to_owned(),
            count => format!("up to {} dead letters", thousands(count as u64)),
        }
    }
}

impl FilterArgs {
    fn is_empty(&self) -> bool {
        self.queue.is_none() && self.kind.is_none() && self.reason.is_none() && self.error.is_none()
    }

    fn to_dead_letter_filter(&self, jobs: Vec<JobId>) -> DeadLetterFilter {
        let (kind, reason, error) = (self.kind.clone(), self.reason.clone(), self.error.clone());
        DeadLetterFilter { jobs, kind, reason, error, before: None }
    }
}

pub(crate) async fn run(command: DlqCommand, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        DlqCommand::List { filter, limit } => list(&filter, limit, context).await?,
        DlqCommand::Show { job } => show(&job, context).await?,
        DlqCommand::Redrive(selection) => return apply(selection, DlqAction::Redrive, context).await,
        DlqCommand::Drop { selection, yes } => {
            return apply(selection, DlqAction::Drop { yes }, context).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(filter: &FilterArgs, limit: usize, context: &Context) -> anyhow::Result<()> {
    let client = context.client().await?;
    let (letters, mut found) = (filter.to_dead_letter_filter(Vec::new()), FoundJobs::default());
    let wanted = |info: &JobInfo| letters.matches(&DeadLetter::from_stored(info));
    for info in pages::list_queues(&client, filter.queue.as_ref()).await? {
        let query = JobQuery { queue: &info.queue, state: JobState::Dead, limit };
        found.add(&client, query, wanted).await?;
    }
    let views: Vec<_> = found.jobs.iter().map(JobView::new).collect();
    let now = client.now();
    context.list(&views, found.more, "there are no such dead letters", |views| table(views, now))?;
    Ok(())
}

fn table(views: &[JobView], now: Timestamp) -> TextTable {
    let mut table = TextTable::new(&["JOB", "QUEUE", "KIND", "DIED", "REASON", "LAST ERROR"]);
    for view in views {
        let text = |text: &Option<String>| Cell::text(text.as_deref().map(printable).unwrap_or_default());
        table.row(vec![
            Cell::text(view.job.as_str()),
            Cell::text(view.queue.as_ref().map_or("", |queue| queue.as_str())),
            text(&view.kind),
            Cell::text(view.died_at.map(|died| relative(now, died)).unwrap_or_default()),
            text(&view.reason),
            text(&view.last_error),
        ]);
    }
    table
}

async fn show(job: &JobId, context: &Context) -> anyhow::Result<()> {
    let client = context.client().await?;
    let view = JobView::new(&find(&client, job).await?);
    if context.printer.is_json() {
        return Ok(context.printer.json(&view)?);
    }
    Ok(context.printer.table(&facts(&view, client.now()))?)
}

async fn find(client: &Client, job: &JobId) -> anyhow::Result<JobInfo> {
    match client.job_info(job).await? {
        Some(info) if info.state == JobState::Dead => Ok(info),
        Some(info) => Err(CliError::failed(format!("job {job} is not dead: it is {}", info.state)).into()),
        None => Err(Error::NotFound(format!("job {job}")).into()),
    }
}

/// The action on the selected dead letters.
#[derive(Debug, Clone, Copy)]
enum DlqAction {
    Redrive,
    /// `yes` skips the confirmation.
    Drop {
        yes: bool,
    },
}

/// The result of the action, as JSON.
#[derive(Debug, Serialize)]
struct DlqResult {
    result: &'static str,
    jobs: u64,
}

async fn apply(selection: SelectionArgs, action: DlqAction, context: &Context) -> anyhow::Result<ExitCode> {
    if selection.jobs.is_empty() && selection.filter.is_empty() && !selection.all {
        let error = CliError::usage("which dead letters? name ids, a filter, or --all");
        return Err(error.hint("`tidemill dlq list` takes the same filters and changes nothing").into());
    }
    let client = context.client().await?;
    if let DlqAction::Drop { yes: false } = action {
        let refusal = "dropping deletes dead letters for good: say --yes if that is meant";
        confirm(&format!("delete {} for good?", selection.describe()), refusal)?;
    }
    let (mut jobs, requested) = (0, selection.jobs.len() as u64);
    for (queue, letters) in select_letters(&client, &selection).await? {
        let dead = queue_handle(&client, &queue).dead_letters();
        jobs += match action {
            DlqAction::Redrive => dead.redrive(&letters).await?,
            DlqAction::Drop { .. } => dead.drop(&letters).await?,
        };
    }
    let result = match action {
        DlqAction::Redrive => "redriven",
        DlqAction::Drop { .. } => "dropped",
    };
    context.printer.result(format!("{} {result}", thousands(jobs)), &DlqResult { result, jobs })?;
    if jobs < requested {
        context.screen.print_line(&format!(
            "{} of those jobs stayed as they are: not there, not dead, or no envelope",
            requested - jobs
        ));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The selected dead letters, by queue.
async fn select_letters(
    client: &Client,
    selection: &SelectionArgs,
) -> anyhow::Result<Vec<(Queue, DeadLetterFilter)>> {
    let queues = pages::list_queues(client, selection.filter.queue.as_ref()).await?;
    let letters = selection.filter.to_dead_letter_filter(selection.jobs.clone());
    Ok(queues.into_iter().filter(|info| info.dead > 0).map(|info| (info.queue, letters.clone())).collect())
}
