//! `tidemill job`: lists, shows, cancels and awaits jobs.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tidemill::job::JobState;
use tidemill::store::Cancelled;
use tidemill::{Client, Error, JobId, QueueName};

use crate::command::enqueue;
use crate::context::Context;
use crate::error::CliError;
use crate::for_each_id::for_each_id;
use crate::output::job::{JobView, facts, table};
use crate::output::printable;
use crate::pages::{self, FoundJobs, JobQuery};
use crate::time;

/// Jobs: show, list, cancel, wait
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum JobCommand {
    /// Show one job: its state, payload and errors
    #[command(after_help = "Example:\n  tidemill job show 01985a4e-8c5f-7cc2-a3b9-1c8e5d0c7f11")]
    Show {
        /// Id of the job
        job: JobId,
    },
    /// List jobs that are running, ready, scheduled, blocked or dead
    #[command(after_help = "Example:\n  tidemill job list --queue mail --state scheduled --limit 50")]
    List {
        /// Only jobs of this queue
        #[arg(long)]
        queue: Option<QueueName>,
        /// Only jobs in this state: running, ready, scheduled, blocked or dead
        #[arg(long)]
        state: Option<JobState>,
        /// Maximum number of results
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Cancel jobs: waiting jobs are removed, running jobs are asked to stop
    #[command(after_help = "Example:\n  tidemill job cancel 01985a4e-8c5f-7cc2-a3b9-1c8e5d0c7f11")]
    Cancel {
        /// Ids of the jobs
        #[arg(required = true)]
        jobs: Vec<JobId>,
    },
    /// Wait until a job ends and print its output
    #[command(
        after_help = "Example:\n  tidemill job wait 01985a4e-8c5f-7cc2-a3b9-1c8e5d0c7f11 --timeout 30s"
    )]
    Wait {
        /// Id of the job; its result must be kept (--keep-result)
        job: JobId,
        /// Maximum time to wait
        #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
        timeout: Option<Duration>,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill job list --queue mail --state running
  tidemill job cancel 01985a4e-8c5f-7cc2-a3b9-1c8e5d0c7f11";

pub(crate) async fn run(command: JobCommand, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        JobCommand::List { state: Some(state @ (JobState::Done | JobState::Cancelled)), .. } => {
            let error = CliError::usage(format!("jobs that are {state} are not listed"));
            Err(error.hint("`tidemill job show ID` shows one whose result is kept").into())
        }
        JobCommand::Show { job } => show(&job, &context.client().await?, context).await,
        JobCommand::List { queue, state, limit } => {
            list(queue.as_ref(), state, limit, context).await.map(|()| ExitCode::SUCCESS)
        }
        JobCommand::Cancel { jobs } => cancel(&jobs, &context.client().await?, context).await,
        JobCommand::Wait { job, timeout } => {
            enqueue::wait(&context.client().await?, &job, timeout, context).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

pub(crate) async fn show(job: &JobId, client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    let Some(info) = client.search_job(job).await? else {
        let error = CliError::failed(Error::NotFound(format!("job {job}")).to_string());
        return Err(error
            .hint("a job that ended is forgotten unless its result is kept (--keep-result)")
            .into());
    };
    let view = JobView::new(&info);
    if context.printer.is_json() {
        context.printer.json(&view)?;
    } else {
        context.printer.table(&facts(&view, client.now()))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(
    queue: Option<&QueueName>,
    state: Option<JobState>,
    limit: usize,
    context: &Context,
) -> anyhow::Result<()> {
    let client = context.client().await?;
    let mut found = FoundJobs::default();
    for info in pages::list_queues(&client, queue).await? {
        for listed in
            [JobState::Running, JobState::Ready, JobState::Scheduled, JobState::Blocked, JobState::Dead]
        {
            if state.is_none_or(|state| state == listed) {
                let query = JobQuery { queue: &info.queue, state: listed, limit };
                found.add(&client, query, |_| true).await?;
            }
        }
    }
    let views: Vec<_> = found.jobs.iter().map(JobView::new).collect();
    let now = client.now();
    context.list(&views, found.more, "there are no such jobs", |views| table(views, now))?;
    Ok(())
}

/// The result of a cancellation, as JSON.
#[derive(Debug, Serialize)]
struct CancelResult<'a> {
    job: &'a JobId,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<JobState>,
}

async fn cancel(jobs: &[JobId], client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    for_each_id(jobs, async |job| {
        let (text, result, state) = match client.cancel(job).await? {
            Cancelled::Removed => ("cancelled".to_owned(), "cancelled", None),
            Cancelled::Requested => ("is running and was told to stop".to_owned(), "requested", None),
            Cancelled::Ended(state) => (format!("had ended already: {state}"), "ended", Some(state)),
            Cancelled::NotFound => ("not found".to_owned(), "not_found", None),
        };
        context.printer.result(printable(&format!("{job} {text}")), &CancelResult { job, result, state })?;
        Ok(result != "not_found" && state.is_none_or(|state| state == JobState::Cancelled))
    })
    .await
}
