//! `tidemill enqueue`: makes jobs and prints their ids.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tidemill::limits::{MAX_BATCH_JOBS, MAX_DELAY};
use tidemill::{BulkError, Client, Dedup, Error, Guarantee, JobId, Kind, QueueName, WaitError};

use crate::context::Context;
use crate::failure::Complaint;
use crate::payload;
use crate::when::{self, When};

/// Up to this many jobs can be looked up while they wait.
const TRACKED: usize = 100;

/// How long a result is kept for `--wait`.
const KEPT_TO_WAIT: Duration = Duration::from_secs(600);

/// Make jobs and print their ids
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What the job does: selects its handler
    kind: Kind,

    /// The queue it goes to
    #[arg(long, default_value = "default")]
    queue: QueueName,

    /// What the job is given: JSON, @FILE or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}")]
    payload: String,

    /// Run it after this long
    #[arg(long, value_name = "DURATION", value_parser = when::duration, conflicts_with = "at")]
    delay: Option<Duration>,

    /// Run it at this time: RFC 3339, or +5m
    #[arg(long, value_name = "TIME", value_parser = when::when)]
    at: Option<When>,

    /// Try it at most this often [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: Option<u32>,

    /// How long one attempt may take
    #[arg(long, value_name = "DURATION", value_parser = when::duration)]
    timeout: Option<Duration>,

    /// The job's id: enqueueing it again makes no second job
    #[arg(long, conflicts_with = "count")]
    id: Option<JobId>,

    /// Make this many of them; more than 100 cannot be looked up by id while they wait
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,

    /// Send it to the at-most-once queue of that name
    #[arg(long)]
    at_most_once: bool,

    /// Keep its output this long for whoever waits for it
    #[arg(long, value_name = "DURATION", value_parser = when::duration)]
    keep_result: Option<Duration>,

    /// Run it only when this chain has closed; may be given several times
    #[arg(long, value_name = "CHAIN", conflicts_with_all = ["count", "at_most_once"])]
    after: Vec<JobId>,

    /// Make none if a chain with this key is still open; prints the id of the one there is
    #[arg(long, value_name = "KEY", conflicts_with_all = ["id", "count", "at_most_once"])]
    dedup: Option<String>,

    /// A closed chain counts too, while its result is kept
    #[arg(long, requires = "dedup")]
    dedup_any: bool,

    /// Only a chain that was started within this long counts
    #[arg(long, value_name = "DURATION", value_parser = when::duration, requires = "dedup")]
    dedup_within: Option<Duration>,

    /// Wait for its end and print its output
    #[arg(long, value_name = "TIMEOUT", value_parser = when::duration, num_args = 0..=1)]
    wait: Option<Option<Duration>>,
}

const EXAMPLES: &str = "\
Examples:
  tidemill enqueue send_email --queue mail --payload '{\"to\":\"ada\"}'
  tidemill enqueue import --payload @report.json --delay 5m --max-attempts 3
  tidemill enqueue greet --payload '{\"name\":\"Ada\"}' --wait 10s
  tidemill enqueue ping --at-most-once --count 1000";

/// A job that was made.
#[derive(Debug, Serialize)]
struct Made<'a> {
    job: &'a JobId,
    kind: &'a Kind,
    queue: &'a QueueName,
    delivery: Guarantee,
    /// Whether it is new; if not, a job with its id was there already.
    created: bool,
}

/// A job that was waited for.
#[derive(Debug, Serialize)]
struct Ended<'a> {
    job: &'a JobId,
    state: &'static str,
    output: &'a RawValue,
}

pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let payload = payload::read("payload", &args.payload, context.settings.limits.payload)?;
    check_due(&args)?;
    let client = context.client_or_new().await?;
    let ids = if args.count == 1 {
        make_one(&args, &client, &payload, context).await?
    } else {
        make_many(&args, &client, &payload, context).await?
    };
    if let Some(timeout) = args.wait {
        for id in &ids {
            wait(&client, id, timeout, context).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The store would refuse it too, but by then its file would have been made.
fn check_due(args: &Args) -> Result<(), Complaint> {
    let delay = match (args.delay, args.at) {
        (Some(delay), _) | (None, Some(When::In(delay))) => delay,
        (None, Some(When::At(time))) => tidemill::Timestamp::now().until(time),
        (None, None) => Duration::ZERO,
    };
    if delay > MAX_DELAY {
        return Err(Complaint::wrong_use("a job cannot be scheduled more than 100 years ahead"));
    }
    Ok(())
}

/// Says the same of one job and of many: the two have no type in common.
macro_rules! plan {
    ($builder:expr, $args:expr) => {{
        let (mut builder, args) = ($builder.queue($args.queue.as_str()).guarantee($args.delivery()), $args);
        match (args.delay, args.at) {
            (Some(delay), _) | (None, Some(When::In(delay))) => builder = builder.delay(delay),
            (None, Some(When::At(time))) => builder = builder.at(time),
            (None, None) => {}
        }
        if let Some(attempts) = args.max_attempts {
            builder = builder.max_attempts(attempts);
        }
        if let Some(timeout) = args.timeout {
            builder = builder.timeout(timeout);
        }
        if let Some(keep) = args.keep_result.or(args.wait.is_some().then_some(KEPT_TO_WAIT)) {
            builder = builder.keep_result(keep);
        }
        builder
    }};
}

impl Args {
    fn delivery(&self) -> Guarantee {
        if self.at_most_once { Guarantee::AtMostOnce } else { Guarantee::AtLeastOnce }
    }

    /// The same, with a result that is kept: a chain is started to see it end.
    pub(crate) fn kept(mut self) -> Self {
        self.keep_result.get_or_insert(KEPT_TO_WAIT);
        self
    }

    fn dedup(&self) -> Option<Dedup> {
        let key = self.dedup.as_deref()?;
        let dedup = if self.dedup_any { Dedup::any(key) } else { Dedup::open(key) };
        Some(Dedup { within: self.dedup_within, ..dedup })
    }

    fn tell(&self, job: &JobId, created: bool, context: &Context) -> io::Result<()> {
        if self.wait.is_some() && !context.out.is_json() {
            // Its output is what is asked for; the id still helps whoever looks on.
            context.screen.say(&format!("waiting for {job}"));
            return Ok(());
        }
        let (kind, queue, delivery) = (&self.kind, &self.queue, self.delivery());
        context.out.result(job, &Made { job, kind, queue, delivery, created })
    }
}

async fn make_one(
    args: &Args,
    client: &Client,
    payload: &RawValue,
    context: &Context,
) -> anyhow::Result<Vec<JobId>> {
    let job = plan!(client.untyped(args.kind.as_str(), payload.to_owned()), args).tracked(true);
    let job = match &args.id {
        Some(id) => job.id(id.as_str()),
        None => job,
    };
    let job = match args.dedup() {
        Some(dedup) => job.dedup(dedup),
        None => job,
    };
    let handle = |id: &JobId| client.handle::<Box<RawValue>>(id.clone());
    let job = args.after.iter().fold(job, |job, id| job.after(&handle(id)));
    let made = context.answer(job.enqueue()).await.map_err(|error| not_made(error, &args.kind))?;
    args.tell(made.id(), made.created(), context)?;
    Ok(vec![made.id().clone()])
}

async fn make_many(
    args: &Args,
    client: &Client,
    payload: &RawValue,
    context: &Context,
) -> anyhow::Result<Vec<JobId>> {
    let (count, mut begun, mut ids) = (args.count as usize, 0, Vec::new());
    let mut unconfirmed = None;
    while begun < count {
        let payloads = vec![payload.to_owned(); MAX_BATCH_JOBS.min(count - begun)];
        begun += payloads.len();
        let bulk = plan!(client.untyped_jobs(args.kind.as_str(), payloads), args).tracked(count <= TRACKED);
        let (made, failure) = match context.answer(bulk.enqueue()).await {
            Ok(made) => (made, None),
            Err(BulkError { created: made, unknown, error, .. }) => {
                (made.into_iter().map(|(_, id)| id).collect(), Some((unknown.len(), error)))
            }
        };
        for id in made {
            args.tell(&id, true, context)?;
            ids.push(id);
        }
        match failure {
            // Every job was made so far.
            Some((_, error @ Error::Unconfirmed(_))) => unconfirmed = Some(error),
            Some((unknown, error)) => {
                let counts = Counts { made: ids.len(), unknown, count };
                return Err(not_all_made(error, &args.kind, &counts));
            }
            None => {}
        }
    }
    match unconfirmed {
        Some(error) => Err(not_all_made(error, &args.kind, &Counts { made: count, unknown: 0, count })),
        None => Ok(ids),
    }
}

/// The error, and what is known of the job that was to be made.
fn not_made(error: Error, kind: &Kind) -> anyhow::Error {
    let said = match error {
        // It says itself that the job was made.
        Error::Unconfirmed(_) => return error.into(),
        Error::Unanswered { .. } => format!("cannot tell whether `{kind}` was enqueued"),
        _ => format!("cannot enqueue `{kind}`"),
    };
    anyhow::Error::new(error).context(said)
}

/// How many of the jobs that were to be made were made.
struct Counts {
    made: usize,
    /// How many more may have been.
    unknown: usize,
    count: usize,
}

/// The error, and what is known of the jobs that were to be made.
fn not_all_made(error: Error, kind: &Kind, counts: &Counts) -> anyhow::Error {
    let Counts { made, unknown, count } = counts;
    let said = match (made, unknown) {
        (made, 0) if made == count => format!("{made} of {count} jobs were made"),
        (_, 0) => format!("cannot enqueue all `{kind}`: {made} of {count} jobs were made"),
        _ => format!(
            "cannot enqueue all `{kind}`: {made} of {count} jobs were made, and up to {unknown} more may have been"
        ),
    };
    anyhow::Error::new(error).context(said)
}

/// Waits for a job's end and prints its output.
pub(crate) async fn wait(
    client: &Client,
    job: &JobId,
    timeout: Option<Duration>,
    context: &Context,
) -> Result<(), anyhow::Error> {
    let handle = client.handle::<Box<RawValue>>(job.clone());
    let ended: Result<_, WaitError> = match timeout {
        Some(timeout) => handle.wait_for(timeout).await,
        None => handle.wait().await,
    };
    let output = ended?;
    context.out.stored(output.get(), &Ended { job, state: "done", output: &output })?;
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
        assert_eq!(not_made(unanswered, &kind()).to_string(), "cannot tell whether `mail` was enqueued");
        let made = "job a was made, but 0 of 1 replicas confirmed it within 2s";
        assert_eq!(not_made(Error::Unconfirmed(made.into()), &kind()).to_string(), made);
    }

    #[test]
    fn of_many_jobs_it_is_said_how_many_were_made_and_how_many_may_have_been() {
        let said = |made, unknown| {
            let error = Error::Full("memory".into());
            not_all_made(error, &kind(), &Counts { made, unknown, count: 1500 }).to_string()
        };
        assert_eq!(said(500, 0), "cannot enqueue all `mail`: 500 of 1500 jobs were made");
        let more = "cannot enqueue all `mail`: 500 of 1500 jobs were made, and up to 250 more may have been";
        assert_eq!(said(500, 250), more);
        assert_eq!(said(1500, 0), "1500 of 1500 jobs were made");
    }
}
