//! `tidemill worker`: runs jobs with any program as their handler.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tidemill::{Client, JobCounts, QueueName, Report, Worker, WorkerBuilder};

use crate::context::Context;
use crate::exec::{self, Groups, Program};
use crate::failure::Complaint;
use crate::lending::Lending;
use crate::output::{thousands, time::brief};
use crate::serve::serve;
use crate::view::{self, EventLog};
use crate::when;

/// Run jobs; any program is a handler
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) crew: Crew,

    /// End when the queues are empty, scheduled jobs and retries included
    #[arg(long)]
    drain: bool,

    #[command(flatten)]
    lending: Lending,
}

const EXAMPLES: &str = "\
A program gets the job's envelope (JSON, with the field `payload`) on stdin, and the variables \
TIDEMILL_JOB_ID, TIDEMILL_KIND, TIDEMILL_QUEUE and TIDEMILL_ATTEMPT. What it prints is the job's output. \
It is ended, with everything it started, when its job is cancelled or takes longer than its timeout.

Its exit code:
  0    done
  10   continues with the job on stdout: {\"kind\": \"ship\", \"payload\": {}}
  65   dead; the last line of stderr is the reason
  else tried again later; the end of stderr is the error

Examples:
  tidemill worker --exec 'greet=jq .payload.name'
  tidemill worker --queue mail=20 --exec 'send_email=./mail.py' --exec '*=./any.sh'
  tidemill worker --queue mail --exec '*=./mail.py' --drain
  tidemill worker --queue pages=4 --browser";

/// Who runs which jobs, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Crew {
    /// An at-least-once queue to serve, and how many of its jobs run at once [default: default, one per core]
    #[arg(long = "queue", value_name = "NAME[=CONCURRENCY]", value_parser = lane)]
    queues: Vec<Lane>,

    /// An at-most-once queue to serve, and how many of its jobs run at once
    #[arg(long, value_name = "NAME[=CONCURRENCY]", value_parser = lane)]
    at_most_once: Vec<Lane>,

    /// The command that runs jobs of a kind, by way of `sh -c`; `*` is any other kind
    #[arg(long = "exec", value_name = "KIND=COMMAND", value_parser = exec::program)]
    pub(crate) programs: Vec<Program>,

    /// How long a job is leased; if this process dies, its jobs come back when it is over
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = when::duration)]
    lease: Duration,

    /// How many jobs to claim ahead of those that can run
    #[arg(long, value_name = "N", default_value_t = 0)]
    prefetch: usize,

    /// How long running jobs may take to end when the worker is stopped
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = when::duration)]
    shutdown_grace: Duration,
}

/// A queue and how many of its jobs run at once.
#[derive(Debug, Clone)]
struct Lane {
    queue: QueueName,
    /// `None`: as many as suits the handlers.
    concurrency: Option<usize>,
}

fn lane(text: &str) -> Result<Lane, String> {
    let Some((name, number)) = text.split_once('=') else {
        let queue = QueueName::new(text).map_err(|error| error.to_string())?;
        return Ok(Lane { queue, concurrency: None });
    };
    let number = number.parse().ok().filter(|number| *number > 0);
    let concurrency = Some(number.ok_or("the concurrency must be a number from 1 on")?);
    Ok(Lane { queue: QueueName::new(name).map_err(|error| error.to_string())?, concurrency })
}

impl Crew {
    /// The first queue that is served by name, and whether it is at-most-once.
    pub(crate) fn first_queue(&self) -> Option<(&str, bool)> {
        let first = self.queues.first().map(|lane| (lane.queue.as_str(), false));
        first.or_else(|| self.at_most_once.first().map(|lane| (lane.queue.as_str(), true)))
    }

    /// A worker for these queues, without handlers. `usual` is how many jobs of a queue run at once if nobody
    /// says otherwise.
    pub(crate) fn worker(&self, client: &Client, usual: usize) -> WorkerBuilder {
        let mut worker = Worker::builder(client).lease(self.lease).prefetch(self.prefetch);
        worker = worker.shutdown_grace(self.shutdown_grace);
        for lane in &self.at_most_once {
            worker = worker.at_most_once(lane.queue.as_str(), lane.concurrency.unwrap_or(usual));
        }
        for lane in &self.queues {
            worker = worker.queue(lane.queue.as_str(), lane.concurrency.unwrap_or(usual));
        }
        if self.queues.is_empty() && self.at_most_once.is_empty() {
            worker = worker.queue("default", usual);
        }
        worker
    }
}

/// How many programs run at once: one per core.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What a worker did, for programs.
#[derive(Debug, Serialize)]
struct Summary {
    event: &'static str,
    done: u64,
    failed: u64,
    dead: u64,
    cancelled: u64,
    snoozed: u64,
    handed_back: u64,
    lost: u64,
    seconds: f64,
    /// Whether the fleet ordered it to go.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ordered: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.crew.programs.is_empty() && !args.lending.browser {
        return Err(Complaint::wrong_use(
            "the worker has no handler: say what to run with --exec KIND=COMMAND, or --browser",
        )
        .hint("--exec 'send_email=./mail.py' runs a program for one kind, --exec '*=cat' for any")
        .into());
    }
    let client = context.client_or_new().await?;
    let groups = Arc::<Groups>::default();
    let worker = args.lending.lend(args.crew.worker(&client, cores()));
    let worker = exec::handlers(worker, args.crew.programs, &groups);
    let (stats, mut log) = (worker.stats(), EventLog::new(worker.events(), context));
    let engine = worker.build()?;
    let emptied = engine.wait_until_empty();
    let until = async move { if args.drain { emptied.await } else { std::future::pending().await } };
    let begun = Instant::now();
    let report = tokio::select! {
        report = serve(engine, &groups, &context.screen, until) => report?,
        broken = log.run(), if context.settings.verbose > 0 => match broken? {},
        never = view::watch(stats, &context.screen) => match never {},
    };
    context.screen.clear();
    if context.settings.verbose > 0 {
        log.rest()?;
    }
    tell(&report, begun.elapsed(), context)?;
    Ok(ExitCode::SUCCESS)
}

/// Says what a worker did.
pub(crate) fn tell(report: &Report, took: Duration, context: &Context) -> std::io::Result<()> {
    let JobCounts { done, retried, dead, cancelled, snoozed, handed_back, lost, .. } = report.total;
    let (seconds, event) = (took.as_secs_f64(), "ended");
    let mut text =
        format!("{} done, {} failed attempts, {} dead", thousands(done), thousands(retried), thousands(dead));
    for (count, what) in
        [(cancelled, "cancelled"), (handed_back, "handed back"), (report.unfinished.abandoned, "left behind")]
    {
        if count > 0 {
            text.push_str(&format!(", {} {what}", thousands(count)));
        }
    }
    let ordered = report.stopped_by_fleet;
    let why = if ordered { "; ordered to go" } else { "" };
    let text = format!("{text} in {}{why}", brief(took));
    let summary = Summary {
        event,
        done,
        failed: retried,
        dead,
        cancelled,
        snoozed,
        handed_back,
        lost,
        seconds,
        ordered,
    };
    context.out.result(text, &summary)
}
