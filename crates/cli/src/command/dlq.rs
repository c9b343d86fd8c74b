//! `tidemill dlq`: looks at the dead letters, brings jobs back, or drops them.

use std::process::ExitCode;

use serde::Serialize;
use tidemill::dead_letter::redrive::{self, DeadLetterFilter};
use tidemill::job::JobState;
use tidemill::store::JobInfo;
use tidemill::{Client, DeadLetter, Error, JobId, Kind, Queue, QueueName, Timestamp};

use crate::browse::{self, Found};
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Complaint;
use crate::output::job::{JobView, facts};
use crate::output::{Cell, Table, printable, thousands, time::relative};

/// Look at the dead letters: list, show, redrive, drop
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    /// List dead jobs and why they died
    #[command(after_help = "Example:\n  tidemill dlq list --queue mail --reason max_attempts_exceeded")]
    List {
        #[command(flatten)]
        filter: Filter,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Show one dead job, whole
    #[command(after_help = "Example:\n  tidemill dlq show 01985a4e-8c5f-7cc2-a3b9-1c8e5d0c7f11")]
    Show {
        /// Which job
        job: JobId,
    },
    /// Bring dead jobs back: they start anew, no attempts counted
    #[command(
        after_help = "Examples:\n  tidemill dlq redrive --kind send_email --error 'connection refused'\n  tidemill dlq redrive --all"
    )]
    Redrive(Choice),
    /// Delete dead jobs for good
    #[command(after_help = "Example:\n  tidemill dlq drop --queue mail --reason invalid_envelope --yes")]
    Drop {
        #[command(flatten)]
        choice: Choice,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill dlq list
  tidemill dlq redrive --queue mail --reason max_attempts_exceeded";

/// Which letters: every condition must hold.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Filter {
    /// Of this queue only
    #[arg(long)]
    queue: Option<QueueName>,
    /// Of this kind only
    #[arg(long)]
    kind: Option<Kind>,
    /// That died for this reason only
    #[arg(long)]
    reason: Option<String>,
    /// Whose last error contains this only
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

/// Which letters to act on: some by id, some by filter, or all, but never all by accident.
#[derive(Debug, clap::Args)]
pub(crate) struct Choice {
    /// These jobs
    jobs: Vec<JobId>,
    #[command(flatten)]
    filter: Filter,
    /// All of them
    #[arg(long, conflicts_with_all = ["jobs", "queue", "kind", "reason", "error"])]
    all: bool,
}

impl Choice {
    fn describe(&self) -> String {
        match self.jobs.len() {
            0 if self.all => "all dead letters".to_owned(),
            0 => "every dead letter that matches".to_owned(),
            count => format!("up to {} dead letters", thousands(count as u64)),
        }
    }
}

impl Filter {
    fn is_empty(&self) -> bool {
        self.queue.is_none() && self.kind.is_none() && self.reason.is_none() && self.error.is_none()
    }

    fn letters(&self, jobs: Vec<JobId>) -> DeadLetterFilter {
        let (kind, reason, error) = (self.kind.clone(), self.reason.clone(), self.error.clone());
        DeadLetterFilter { jobs, kind, reason, error, before: None }
    }
}

pub(crate) async fn run(action: Action, context: &Context) -> anyhow::Result<ExitCode> {
    match action {
        Action::List { filter, limit } => list(&filter, limit, context).await?,
        Action::Show { job } => show(&job, context).await?,
        Action::Redrive(choice) => return act(choice, Act::Redrive, context).await,
        Action::Drop { choice, yes } => return act(choice, Act::Drop { yes }, context).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(filter: &Filter, limit: usize, context: &Context) -> anyhow::Result<()> {
    let client = context.client().await?;
    let (letters, mut found) = (filter.letters(Vec::new()), Found::default());
    let wanted = |info: &JobInfo| letters.matches(&DeadLetter::from_stored(info));
    for info in browse::queues(&**client.store(), filter.queue.as_ref()).await? {
        found.add(&**client.store(), (&info.queue, JobState::Dead), limit, wanted).await?;
    }
    let views: Vec<_> = found.jobs.iter().map(JobView::of).collect();
    let now = client.store().clock().now();
    context.list((&views, found.more), "there are no such dead letters", |views| table(views, now))?;
    Ok(())
}

fn table(views: &[JobView], now: Timestamp) -> Table {
    let mut table = Table::new(&["JOB", "QUEUE", "KIND", "DIED", "REASON", "LAST ERROR"]);
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
    let view = JobView::of(&find(&client, job).await?);
    if context.out.is_json() {
        return Ok(context.out.json(&view)?);
    }
    Ok(context.out.table(&facts(&view, client.store().clock().now()))?)
}

async fn find(client: &Client, job: &JobId) -> anyhow::Result<JobInfo> {
    match client.store().get_job(job).await? {
        Some(info) if info.state == JobState::Dead => Ok(info),
        Some(info) => Err(Complaint::failed(format!("job {job} is not dead: it is {}", info.state)).into()),
        None => Err(Error::NotFound(format!("job {job}")).into()),
    }
}

/// What to do with letters.
#[derive(Debug, Clone, Copy)]
enum Act {
    Redrive,
    /// `yes`: without asking.
    Drop {
        yes: bool,
    },
}

/// What was done, for programs.
#[derive(Debug, Serialize)]
struct Done {
    result: &'static str,
    jobs: u64,
}

async fn act(choice: Choice, act: Act, context: &Context) -> anyhow::Result<ExitCode> {
    if choice.jobs.is_empty() && choice.filter.is_empty() && !choice.all {
        let complaint = Complaint::wrong_use("which dead letters? name ids, a filter, or --all");
        return Err(complaint.hint("`tidemill dlq list` takes the same filters and changes nothing").into());
    }
    let client = context.client().await?;
    if let Act::Drop { yes: false } = act {
        let refusal = "dropping deletes dead letters for good: say --yes if that is meant";
        confirm(&format!("delete {} for good?", choice.describe()), refusal)?;
    }
    let (mut jobs, asked) = (0, choice.jobs.len() as u64);
    for (queue, letters) in chosen(&client, &choice).await? {
        jobs += match act {
            Act::Redrive => redrive::redrive(&**client.store(), &queue, &letters).await?,
            Act::Drop { .. } => redrive::drop_dead(&**client.store(), &queue, &letters).await?,
        };
    }
    let result = match act {
        Act::Redrive => "redriven",
        Act::Drop { .. } => "dropped",
    };
    context.out.result(format!("{} {result}", thousands(jobs)), &Done { result, jobs })?;
    if jobs < asked {
        context.screen.say(&format!(
            "{} of those jobs stayed as they are: not there, not dead, or no envelope",
            asked - jobs
        ));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The letters that are meant, queue by queue.
async fn chosen(client: &Client, choice: &Choice) -> anyhow::Result<Vec<(Queue, DeadLetterFilter)>> {
    let queues = browse::queues(&**client.store(), choice.filter.queue.as_ref()).await?;
    let letters = choice.filter.letters(choice.jobs.clone());
    Ok(queues.into_iter().filter(|info| info.dead > 0).map(|info| (info.queue, letters.clone())).collect())
}
