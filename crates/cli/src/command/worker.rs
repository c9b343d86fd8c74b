//! `tidemill worker`: runs jobs with any program as their handler.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tidemill::worker::JobCounts;
use tidemill::{Client, QueueName, Report, Worker, WorkerBuilder};

use crate::browser_flags::BrowserFlags;
use crate::context::Context;
use crate::error::CliError;
use crate::exec::{self, ExecHandler, ProcessGroups};
use crate::output::{thousands, time::brief_duration};
use crate::serve::serve;
use crate::time;
use crate::view::{self, EventLog};

/// Run jobs; any program can be a handler
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) worker_flags: WorkerFlags,

    /// Exit when the queues are empty, including scheduled jobs and retries
    #[arg(long)]
    drain: bool,

    #[command(flatten)]
    browser_flags: BrowserFlags,
}

const EXAMPLES: &str = "\
A program gets the job's envelope (JSON, with the field `payload`) on stdin, and the variables \
TIDEMILL_JOB_ID, TIDEMILL_KIND, TIDEMILL_QUEUE and TIDEMILL_ATTEMPT. What it prints is the job's output. \
The program and all its child processes are terminated when its job is cancelled or exceeds its timeout.

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

/// Flags that `worker` and `dev` share.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerFlags {
    /// At-least-once queue to serve, and its concurrency [default: default, one per core]
    #[arg(long = "queue", value_name = "NAME[=CONCURRENCY]", value_parser = parse_queue_concurrency)]
    queues: Vec<QueueConcurrency>,

    /// At-most-once queue to serve, and its concurrency
    #[arg(long, value_name = "NAME[=CONCURRENCY]", value_parser = parse_queue_concurrency)]
    at_most_once: Vec<QueueConcurrency>,

    /// Command that runs jobs of a kind, with `sh -c`; `*` is any other kind
    #[arg(long = "exec", value_name = "KIND=COMMAND", value_parser = exec::parse_handler)]
    pub(crate) handlers: Vec<ExecHandler>,

    /// Lease of a job; the jobs of a worker that died run again after this time
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = time::parse_duration)]
    lease: Duration,

    /// Number of jobs to claim in advance
    #[arg(long, value_name = "N", default_value_t = 0)]
    prefetch: usize,

    /// Time that running jobs have to end after a stop signal
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = time::parse_duration)]
    shutdown_grace: Duration,
}

/// A queue and its concurrency.
#[derive(Debug, Clone)]
struct QueueConcurrency {
    queue: QueueName,
    /// `None` selects the default of the handlers.
    concurrency: Option<usize>,
}

fn parse_queue_concurrency(text: &str) -> Result<QueueConcurrency, String> {
    let Some((name, number)) = text.split_once('=') else {
        let queue = QueueName::new(text).map_err(|error| error.to_string())?;
        return Ok(QueueConcurrency { queue, concurrency: None });
    };
    let number = number.parse().ok().filter(|number| *number > 0);
    let concurrency = Some(number.ok_or("the concurrency must be a number from 1 on")?);
    Ok(QueueConcurrency { queue: QueueName::new(name).map_err(|error| error.to_string())?, concurrency })
}

impl WorkerFlags {
    /// The first queue that a flag names, and whether it is at-most-once.
    pub(crate) fn first_queue(&self) -> Option<(&str, bool)> {
        let first = self.queues.first().map(|entry| (entry.queue.as_str(), false));
        first.or_else(|| self.at_most_once.first().map(|entry| (entry.queue.as_str(), true)))
    }

    /// Builds a worker for these queues, without handlers. Queues without a concurrency of their
    /// own get `default_concurrency`.
    pub(crate) fn worker(&self, client: &Client, default_concurrency: usize) -> WorkerBuilder {
        let mut worker = Worker::builder(client).lease(self.lease).prefetch(self.prefetch);
        worker = worker.shutdown_grace(self.shutdown_grace);
        for entry in &self.at_most_once {
            worker =
                worker.at_most_once(entry.queue.as_str(), entry.concurrency.unwrap_or(default_concurrency));
        }
        for entry in &self.queues {
            worker = worker.queue(entry.queue.as_str(), entry.concurrency.unwrap_or(default_concurrency));
        }
        if self.queues.is_empty() && self.at_most_once.is_empty() {
            worker = worker.queue("default", default_concurrency);
        }
        worker
    }
}

/// The default concurrency of programs: one per core.
pub(crate) fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The counts of a worker, as JSON.
#[derive(Debug, Serialize)]
struct WorkerSummary {
    event: &'static str,
    done: u64,
    failed: u64,
    dead: u64,
    cancelled: u64,
    snoozed: u64,
    handed_back: u64,
    lost: u64,
    seconds: f64,
    /// Whether an operator drained this worker.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ordered: bool,
}

pub(crate) async fn run(args: WorkerArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if args.worker_flags.handlers.is_empty() && !args.browser_flags.browser {
        return Err(CliError::usage(
            "the worker has no handler: say what to run with --exec KIND=COMMAND, or --browser",
        )
        .hint("--exec 'send_email=./mail.py' runs a program for one kind, --exec '*=cat' for any")
        .into());
    }
    let client = context.client_or_new().await?;
    let groups = Arc::<ProcessGroups>::default();
    let worker = args.browser_flags.apply_to(args.worker_flags.worker(&client, core_count()));
    let worker = exec::add_handlers(worker, args.worker_flags.handlers, &groups);
    let (stats, mut log) = (worker.stats(), EventLog::new(worker.events(), context));
    let engine = worker.build()?;
    let emptied = engine.wait_until_empty();
    let until = async move { if args.drain { emptied.await } else { std::future::pending().await } };
    let started = Instant::now();
    let report = tokio::select! {
        report = serve(engine, &groups, &context.screen, until) => report?,
        broken = log.run(), if context.config.verbose > 0 => match broken? {},
        never = view::show_counts(stats, &context.screen) => match never {},
    };
    context.screen.clear();
    if context.config.verbose > 0 {
        log.write_remaining()?;
    }
    print_summary(&report, started.elapsed(), context)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the counts of a worker.
pub(crate) fn print_summary(report: &Report, took: Duration, context: &Context) -> std::io::Result<()> {
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
    let text = format!("{text} in {}{why}", brief_duration(took));
    let summary = WorkerSummary {
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
    context.printer.result(text, &summary)
}
