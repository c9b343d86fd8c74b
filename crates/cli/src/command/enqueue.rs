//! `tidemill enqueue`: enqueues jobs and prints their ids.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tidemill::limits::{MAX_BATCH_JOBS, MAX_DELAY};
use tidemill::{BulkError, Client, Dedup, Error, Guarantee, JobId, Kind, QueueName, WaitError};

use crate::context::Context;
use crate::error::CliError;
use crate::output::printable;
use crate::payload;
use crate::time::{self, TimeArg};

/// Up to this many jobs are tracked, so that they can be looked up by id while they wait.
const MAX_TRACKED_JOBS: usize = 100;

/// Time for which the result of a job is kept for `--wait`.
const WAITED_RESULT_RETENTION: Duration = Duration::from_secs(600);

/// Enqueue jobs and print their ids
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EnqueueArgs {
    /// Kind of the job: selects its handler
    kind: Kind,

    /// Queue of the job
    #[arg(long, default_value = "default")]
    queue: QueueName,

    /// Payload of the job: JSON, @FILE or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}")]
    payload: String,

    /// Run the job after this delay
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration, conflicts_with = "at")]
    delay: Option<Duration>,

    /// Run the job at this time: RFC 3339, or +5m
    #[arg(long, value_name = "TIME", value_parser = time::parse_time)]
    at: Option<TimeArg>,

    /// Maximum number of attempts [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: Option<u32>,

    /// Timeout of one attempt
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    timeout: Option<Duration>,

    /// Id of the job: a second enqueue with the same id creates no second job
    #[arg(long, conflicts_with = "count")]
    id: Option<JobId>,

    /// Number of jobs; more than 100 cannot be looked up by id while they wait
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,

    /// Use the at-most-once queue of that name
    #[arg(long)]
    at_most_once: bool,

    /// Keep the job's output for this long
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    keep_result: Option<Duration>,

    /// Run the job only after this chain has closed; can be repeated
    #[arg(long, value_name = "CHAIN", conflicts_with_all = ["count", "at_most_once"])]
    after: Vec<JobId>,

    /// Create no job if a chain with this key is open; prints the id of that chain
    #[arg(long, value_name = "KEY", conflicts_with_all = ["id", "count", "at_most_once"])]
    dedup: Option<String>,

    /// Deduplicate against closed chains too, while their results are kept
    #[arg(long, requires = "dedup")]
    dedup_any: bool,

    /// Deduplicate only against chains started within this time
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration, requires = "dedup")]
    dedup_within: Option<Duration>,

    /// Wait until the job ends and print its output
    #[arg(long, value_name = "TIMEOUT", value_parser = time::parse_duration, num_args = 0..=1)]
    wait: Option<Option<Duration>>,
}

const EXAMPLES: &str = "\
Examples:
  tidemill enqueue send_email --queue mail --payload '{\"to\":\"ada\"}'
  tidemill enqueue import --payload @report.json --delay 5m --max-attempts 3
  tidemill enqueue greet --payload '{\"name\":\"Ada\"}' --wait 10s
  tidemill enqueue ping --at-most-once --count 1000";

/// An enqueued job, as JSON.
#[derive(Debug, Serialize)]
struct EnqueuedJob<'a> {
    job: &'a JobId,
    kind: &'a Kind,
    queue: &'a QueueName,
    delivery: Guarantee,
    /// Whether the job is new. If not, a job with its id existed already.
    created: bool,
}

/// A finished job, as JSON.
#[derive(Debug, Serialize)]
struct FinishedJob<'a> {
    job: &'a JobId,
    state: &'static str,
    output: &'a RawValue,
}

pub(crate) async fn run(args: EnqueueArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let payload = payload::read("payload", &args.payload, context.config.limits.payload)?;
    check_delay(&args)?;
    let client = context.client_or_new().await?;
    let ids = if args.count == 1 {
        enqueue_one(&args, &client, &payload, context).await?
    } else {
        enqueue_many(&args, &client, &payload, context).await?
    };
    if let Some(timeout) = args.wait {
        for id in &ids {
            wait(&client, id, timeout, context).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Checked before the store is opened, because opening creates the file of a SQLite store.
fn check_delay(args: &EnqueueArgs) -> Result<(), CliError> {
    let delay = match (args.delay, args.at) {
        (Some(delay), _) | (None, Some(TimeArg::In(delay))) => delay,
        (None, Some(TimeArg::At(time))) => tidemill::Timestamp::now().until(time),
        (None, None) => Duration::ZERO,
    };
    if delay > MAX_DELAY {
        return Err(CliError::usage("a job cannot be scheduled more than 100 years ahead"));
    }
    Ok(())
}

/// Applies the flags to the builder of one job or of many: the two builders have no common trait.
macro_rules! with_options {
    ($builder:expr, $args:expr) => {{
        let (mut builder, args) = ($builder.queue($args.queue.as_str()).guarantee($args.guarantee()), $args);
        match (args.delay, args.at) {
            (Some(delay), _) | (None, Some(TimeArg::In(delay))) => builder = builder.delay(delay),
            (None, Some(TimeArg::At(time))) => builder = builder.at(time),
            (None, None) => {}
        }
        if let Some(attempts) = args.max_attempts {
            builder = builder.max_attempts(attempts);
        }
        if let Some(timeout) = args.timeout {
            builder = builder.timeout(timeout);
        }
        if let Some(keep) = args.keep_result.or(args.wait.is_some().then_some(WAITED_RESULT_RETENTION)) {
            builder = builder.keep_result(keep);
        }
        builder
    }};
}

impl EnqueueArgs {
    fn guarantee(&self) -> Guarantee {
        if self.at_most_once { Guarantee::AtMostOnce } else { Guarantee::AtLeastOnce }
    }

    /// Keeps the result, because a chain is started in order to see it end.
    pub(crate) fn with_kept_result(mut self) -> Self {
        self.keep_result.get_or_insert(WAITED_RESULT_RETENTION);
        self
    }

    fn dedup(&self) -> Option<Dedup> {
        let key = self.dedup.as_deref()?;
        let dedup = if self.dedup_any { Dedup::any(key) } else { Dedup::open(key) };
        Some(Dedup { within: self.dedup_within, ..dedup })
    }

    fn print_job(&self, job: &JobId, created: bool, context: &Context) -> io::Result<()> {
        if self.wait.is_some() && !context.printer.is_json() {
            // Stdout is for the output alone; the id goes to stderr.
            context.screen.print_line(&format!("waiting for {job}"));
            return Ok(());
        }
        let (kind, queue, delivery) = (&self.kind, &self.queue, self.guarantee());
        context.printer.result(job, &EnqueuedJob { job, kind, queue, delivery, created })
    }
}

async fn enqueue_one(
    args: &EnqueueArgs,
    client: &Client,
    payload: &RawValue,
    context: &Context,
) -> anyhow::Result<Vec<JobId>> {
    let job = with_options!(client.untyped(args.kind.as_str(), payload.to_owned()), args).tracked(true);
    let job = match &args.id {
        Some(id) => job.id(id.as_str()),
        None => job,
    };
    let job = match args.dedup() {
        Some(dedup) => job.dedup(dedup),
        None => job,
    };
    let handle = |id: &JobId| client.untyped_job_handle(id.clone());
    let job = args.after.iter().fold(job, |job, id| job.after(&handle(id)));
    let made = context.await_store(job.enqueue()).await.map_err(|error| enqueue_error(error, &args.kind))?;
    args.print_job(made.id(), made.created(), context)?;
    if !made.created() {
        let key = args.dedup.as_deref().map(|key| format!(" with key {}", printable(key)));
        let what = if key.is_some() { "chain" } else { "job" };
        context.screen.print_line(&format!(
            "no job was created: {what} {}{} exists already",
            made.id(),
            key.unwrap_or_default()
        ));
    }
    Ok(vec![made.id().clone()])
}

async fn enqueue_many(
    args: &EnqueueArgs,
    client: &Client,
    payload: &RawValue,
    context: &Context,
) -> anyhow::Result<Vec<JobId>> {
    let (count, mut sent, mut ids) = (args.count as usize, 0, Vec::new());
    let mut unconfirmed = None;
    while sent < count {
        let payloads = vec![payload.to_owned(); MAX_BATCH_JOBS.min(count - sent)];
        sent += payloads.len();
        let bulk = with_options!(client.untyped_jobs(args.kind.as_str(), payloads), args)
            .tracked(count <= MAX_TRACKED_JOBS);
        let (made, failure) = match context.await_store(bulk.enqueue()).await {
            Ok(made) => (made, None),
            Err(BulkError { created: made, unknown, error, .. }) => {
                (made.into_iter().map(|(_, id)| id).collect(), Some((unknown.len(), error)))
            }
        };
        for id in made {
            args.print_job(&id, true, context)?;
            ids.push(id);
        }
        match failure {
            // All jobs so far were enqueued.
            Some((_, error @ Error::Unconfirmed(_))) => unconfirmed = Some(error),
            Some((unknown, error)) => {
                let counts = EnqueueCounts { made: ids.len(), unknown, count };
                return Err(bulk_error(error, &args.kind, &counts));
            }
            None => {}
        }
    }
    match unconfirmed {
        Some(error) => Err(bulk_error(error, &args.kind, &EnqueueCounts { made: count, unknown: 0, count })),
        None => Ok(ids),
    }
}

/// Adds what is known about the job to the error.
fn enqueue_error(error: Error, kind: &Kind) -> anyhow::Error {
    let message = match error {
        // The error already says that the job was enqueued.
        Error::Unconfirmed(_) => return error.into(),
        Error::Unanswered { .. } => format!("cannot tell whether `{kind}` was enqueued"),
        _ => format!("cannot enqueue `{kind}`"),
    };
    anyhow::Error::new(error).context(message)
}

/// How many of the requested jobs were enqueued.
struct EnqueueCounts {
    made: usize,
    /// How many more may have been enqueued.
    unknown: usize,
    count: usize,
}

/// Adds what is known about the jobs to the error.
fn bulk_error(error: Error, kind: &Kind, counts: &EnqueueCounts) -> anyhow::Error {
    let EnqueueCounts { made, unknown, count } = counts;
    let message = match (made, unknown) {
        (made, 0) if made == count => format!("{made} of {count} jobs were made"),
        (_, 0) => format!("cannot enqueue all `{kind}`: {made} of {count} jobs were made"),
        _ => format!(
            "cannot enqueue all `{kind}`: {made} of {count} jobs were made, and up to {unknown} more may have been"
        ),
    };
    anyhow::Error::new(error).context(message)
}

/// Waits until a job ends and prints its output.
pub(crate) async fn wait(
    client: &Client,
    job: &JobId,
    timeout: Option<Duration>,
    context: &Context,
) -> Result<(), anyhow::Error> {
    let handle = client.untyped_job_handle(job.clone());
    let ended: Result<_, WaitError> = match timeout {
        Some(timeout) => handle.wait_for(timeout).await,
        None => handle.wait().await,
    };
    let output = ended?;
    context.printer.stored(output.get(), &FinishedJob { job, state: "done", output: &output })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind() -> Kind {
        "mail".parse().unwrap()
    }

    #[test]
    fn a_job_that_may_have_been_made_is_not_denied() {
        let unanswered = Error::Unanswered { message: "enqueue".into(), source: None };
        assert_eq!(enqueue_error(unanswered, &kind()).to_string(), "cannot tell whether `mail` was enqueued");
        let made = "job a was made, but 0 of 1 replicas confirmed it within 2s";
        assert_eq!(enqueue_error(Error::Unconfirmed(made.into()), &kind()).to_string(), made);
    }

    #[test]
    fn of_many_jobs_it_is_said_how_many_were_made_and_how_many_may_have_been() {
        let message = |made, unknown| {
            let error = Error::Full("memory".into());
            bulk_error(error, &kind(), &EnqueueCounts { made, unknown, count: 1500 }).to_string()
        };
        assert_eq!(message(500, 0), "cannot enqueue all `mail`: 500 of 1500 jobs were made");
        let more = "cannot enqueue all `mail`: 500 of 1500 jobs were made, and up to 250 more may have been";
        assert_eq!(message(500, 250), more);
        assert_eq!(message(1500, 0), "1500 of 1500 jobs were made");
    }
}
