//! `tidemill workflow`: starts, shows, signals and ends runs.

mod control;
mod inspect;
mod run_arg;
mod start;

use std::process::ExitCode;
use std::time::Duration;

use tidemill::workflow::{RunId, RunStatus, Topic, WorkflowName};

use crate::context::Context;
use crate::time::{self, TimeArg};
use run_arg::{KeyArg, RunArg};

/// Durable workflows: start, list, show, journal, signal, query, cancel, terminate, reset
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum WorkflowCommand {
    /// Start a run and print its id
    #[command(
        after_help = "Example:\n  tidemill workflow start order --input '{\"order\":7}' --key order-7 --wait 30s"
    )]
    Start(Box<start::StartArgs>),
    /// List runs, newest first
    #[command(
        after_help = "Example:\n  tidemill workflow list --type order --status running --where city='\"Kyiv\"'"
    )]
    List(ListArgs),
    /// Show a run: its journal as a timeline, and why it is not progressing
    #[command(
        after_help = "Examples:\n  tidemill workflow show order-7\n  tidemill workflow show --type order --key order-7"
    )]
    Show(RunArg),
    /// Print a run's journal, one entry per line
    #[command(
        after_help = "Example:\n  tidemill workflow journal order-7 --export journals/order-7.json\n\n\
                      An exported journal is a test: `replay_dir(\"journals/*.json\")` replays your code against it."
    )]
    Journal {
        #[command(flatten)]
        run: RunArg,
        /// Write the journal to this file instead, in the format of replay tests; - for stdout
        #[arg(long, value_name = "FILE")]
        export: Option<String>,
    },
    /// Wait until a run ends and print its output
    #[command(after_help = "Example:\n  tidemill workflow wait order-7 --timeout 30s")]
    Wait {
        #[command(flatten)]
        run: RunArg,
        /// Maximum time to wait
        #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
        timeout: Option<Duration>,
    },
    /// Send a signal to a run
    #[command(
        after_help = "Example:\n  tidemill workflow signal order-7 approve --payload '{\"by\":\"ann\"}'"
    )]
    Signal(MessageArgs),
    /// Query a run; a worker with its code answers
    #[command(after_help = "Example:\n  tidemill workflow query order-7 status")]
    Query(MessageArgs),
    /// Send an update to a run and print the answer
    #[command(after_help = "Example:\n  tidemill workflow update order-7 set_limit --payload 100")]
    Update {
        #[command(flatten)]
        message: MessageArgs,
        /// Maximum time to wait for the answer. The run receives the update even after a timeout
        #[arg(long, value_name = "DURATION", value_parser = time::parse_duration, default_value = "30s")]
        timeout: Duration,
    },
    /// Request the cancellation of a run; its code can clean up first
    #[command(after_help = "Example:\n  tidemill workflow cancel order-7 --reason 'ordered twice'")]
    Cancel(EndRunArgs),
    /// Terminate a run at once, without running its code
    #[command(after_help = "Example:\n  tidemill workflow terminate order-7 --reason 'runs amok'")]
    Terminate(EndRunArgs),
    /// Reset a run to one of its commits, as a new run
    #[command(
        after_help = "Example:\n  tidemill workflow journal order-7      # shows the positions of its commits\n  \
                      tidemill workflow reset order-7 --to 4"
    )]
    Reset {
        #[command(flatten)]
        run: RunArg,
        /// Position of the commit to reset to
        #[arg(long, value_name = "POSITION")]
        to: u64,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill workflow start order --input '{\"order\":7}' --id order-7
  tidemill workflow show order-7
  tidemill workflow signal order-7 approve --payload '{\"by\":\"ann\"}'
  tidemill workflow journal order-7 --export journals/order-7.json";

/// Filters of a listing of runs.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only runs of this workflow
    #[arg(long = "type", value_name = "WORKFLOW")]
    workflow: Option<WorkflowName>,
    /// Only runs in this state: running, completed, failed, cancelled or terminated
    #[arg(long)]
    status: Option<RunStatus>,
    /// Only runs started at this time or later: RFC 3339, or 2h for two hours ago
    #[arg(long, value_name = "TIME", value_parser = parse_past_time)]
    since: Option<TimeArg>,
    /// Only runs started before this time
    #[arg(long, value_name = "TIME", value_parser = parse_past_time)]
    before: Option<TimeArg>,
    /// Only runs with this search attribute; the value is JSON, otherwise a string
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = parse_attribute)]
    attribute: Option<(Topic, tidemill::workflow::Json)>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// A signal, query or update to a run.
#[derive(Debug, clap::Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct MessageArgs {
    #[command(flatten)]
    run: RunArg,
    /// Name of the signal, query or update
    name: Topic,
    /// Payload: JSON, @FILE or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "null")]
    payload: String,
}

/// The runs to end, and the reason.
#[derive(Debug, clap::Args)]
pub(crate) struct EndRunArgs {
    /// Ids of the runs
    #[arg(required_unless_present = "key")]
    runs: Vec<RunId>,
    #[command(flatten)]
    key: KeyArg,
    /// Reason, kept in the journal
    #[arg(long, default_value = "")]
    reason: String,
}

pub(crate) async fn run(command: WorkflowCommand, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        WorkflowCommand::Start(args) => start::run(*args, context).await?,
        WorkflowCommand::List(list) => inspect::list(list, context).await?,
        WorkflowCommand::Show(run) => inspect::show(run, context).await?,
        WorkflowCommand::Journal { run, export: None } => inspect::journal(run, context).await?,
        WorkflowCommand::Journal { run, export: Some(file) } => inspect::export(run, &file, context).await?,
        WorkflowCommand::Wait { run, timeout } => start::wait(run, timeout, context).await?,
        WorkflowCommand::Signal(message) => control::signal(message, context).await?,
        WorkflowCommand::Query(message) => control::query(message, context).await?,
        WorkflowCommand::Update { message, timeout } => control::update(message, timeout, context).await?,
        WorkflowCommand::Cancel(end) => return control::end(end, control::EndMode::Cancel, context).await,
        WorkflowCommand::Terminate(end) => {
            return control::end(end, control::EndMode::Terminate, context).await;
        }
        WorkflowCommand::Reset { run, to } => control::reset(run, to, context).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses a time in the past: a timestamp, or how long ago.
fn parse_past_time(text: &str) -> Result<TimeArg, String> {
    if let Ok(ago) = time::parse_duration(text) {
        return Ok(TimeArg::In(ago));
    }
    let wrong = "write it like 2025-01-31T09:00:00Z, or like 2h for two hours ago";
    // A time in the future, such as +5m, has no runs yet.
    time::parse_time(text).ok().filter(|when| matches!(when, TimeArg::At(_))).ok_or_else(|| wrong.to_owned())
}

/// `city=Kyiv`, `city="Kyiv"` or `number=7`.
pub(super) fn parse_attribute(text: &str) -> Result<(Topic, tidemill::workflow::Json), String> {
    let (name, value) = text.split_once('=').ok_or("write it like city=Kyiv or number=7")?;
    let name = Topic::new(name).map_err(|error| error.to_string())?;
    let json =
        tidemill::workflow::Json::from_text(value).or_else(|_| tidemill::workflow::Json::from_value(value));
    Ok((name, json.map_err(|error| error.to_string())?))
}
