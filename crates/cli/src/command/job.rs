//! `tidemill job`: looks at jobs and acts on single ones.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tidemill::job::JobState;
use tidemill::store::Cancelled;
use tidemill::{Client, Error, JobId, QueueName};

use crate::browse::{self, Found};
use crate::command::enqueue;
use crate::context::Context;
use crate::failure::Complaint;
use crate::output::job::{JobView, facts, table};
use crate::output::printable;
use crate::several::each;
use crate::when;

/// Look at jobs: show, list, cancel, wait
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    /// Show one job: where it is, what it is given, what went wrong
    #[command(after_help = "Example:\n  tidemill job show 01985a4e-8c5f-7cc2-a3b9-1c8e5d0c7f11")]
    Show {
        /// Which job
        job: JobId,
    },
    /// List jobs that are running, ready, scheduled, blocked or dead
    #[command(after_help = "Example:\n  tidemill job list --queue mail --state scheduled --limit 50")]
    List {
        /// Of this queue only
        #[arg(long)]
        queue: Option<QueueName>,
        /// In this state only: running, ready, scheduled, blocked or dead
        #[arg(long)]
        state: Option<JobState>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Cancel jobs: one that waits is removed, one that runs is stopped
    #[command(after_help = "Example:\n  tidemill job cancel 01985a4e-8c5f-7cc2-a3b9-1c8e5d0c7f11")]
    Cancel {
        /// Which jobs
        #[arg(required = true)]
        jobs: Vec<JobId>,
    },
    /// Wait for a job's end and print its output
    #[command(
        after_help = "Example:\n  tidemill job wait 01985a4e-8c5f-7cc2-a3b9-1c8e5d0c7f11 --timeout 30s"
    )]
    Wait {
        /// Which job; its result must be kept (--keep-result)
        job: JobId,
        /// How long to wait
        #[arg(long, value_name = "DURATION", value_parser = when::duration)]
        timeout: Option<Duration>,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill job list --queue mail --state running
  tidemill job cancel 01985a4e-8c5f-7cc2-a3b9-1c8e5d0c7f11";

pub(crate) async fn run(action: Action, context: &Context) -> anyhow::Result<ExitCode> {
    match action {
        Action::List { state: Some(state @ (JobState::Done | JobState::Cancelled)), .. } => {
            let complaint = Complaint::wrong_use(format!("jobs that are {state} are not listed"));
            Err(complaint.hint("`tidemill job show ID` shows one whose result is kept").into())
        }
        Action::Show { job } => show(&job, &context.client().await?, context).await,
        Action::List { queue, state, limit } => {
            list(queue.as_ref(), state, limit, context).await.map(|()| ExitCode::SUCCESS)
        }
        Action::Cancel { jobs } => cancel(&jobs, &context.client().await?, context).await,
        Action::Wait { job, timeout } => {
            enqueue::wait(&context.client().await?, &job, timeout, context).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

pub(crate) async fn show(job: &JobId, client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    let Some(info) = client.store().get_job(job).await? else {
        let complaint = Complaint::failed(Error::NotFound(format!("job {job}")).to_string());
        return Err(complaint
            .hint("a job that ended is forgotten unless its result is kept (--keep-result)")
            .into());
    };
    let view = JobView::of(&info);
    if context.out.is_json() {
        context.out.json(&view)?;
    } else {
        context.out.table(&facts(&view, client.store().clock().now()))?;
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
    let mut found = Found::default();
    for info in browse::queues(&**client.store(), queue).await? {
        for listed in
            [JobState::Running, JobState::Ready, JobState::Scheduled, JobState::Blocked, JobState::Dead]
        {
            if state.is_none_or(|state| state == listed) {
                found.add(&**client.store(), (&info.queue, listed), limit, |_| true).await?;
            }
        }
    }
    let views: Vec<_> = found.jobs.iter().map(JobView::of).collect();
    let now = client.store().clock().now();
    context.list((&views, found.more), "there are no such jobs", |views| table(views, now))?;
    Ok(())
}

/// What cancelling a job did, for programs.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    job: &'a JobId,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<JobState>,
}

async fn cancel(jobs: &[JobId], client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    each(jobs, async |job| {
        let (text, result, state) = match client.cancel(job).await? {
            Cancelled::Removed => ("cancelled".to_owned(), "cancelled", None),
            Cancelled::Requested => ("is running and was told to stop".to_owned(), "requested", None),
            Cancelled::Ended(state) => (format!("had ended already: {state}"), "ended", Some(state)),
            Cancelled::NotFound => ("not found".to_owned(), "not_found", None),
        };
        context.out.result(printable(&format!("{job} {text}")), &Answer { job, result, state })?;
        Ok(result != "not_found" && state.is_none_or(|state| state == JobState::Cancelled))
    })
    .await
}
