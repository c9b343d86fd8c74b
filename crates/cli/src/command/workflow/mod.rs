//! `tidemill workflow`: starts runs, looks at them, speaks to them and ends them.

mod look;
mod start;
mod tell;

use std::process::ExitCode;
use std::time::Duration;

use tidemill::workflow::{RunId, RunStatus, Topic, WorkflowName};

use crate::context::Context;
use crate::when::{self, When};

/// Durable workflows: start, list, show, journal, signal, query, cancel, terminate, reset
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    /// Start a run and print its id
    #[command(
        after_help = "Example:\n  tidemill workflow start order --input '{\"order\":7}' --key order-7 --wait 30s"
    )]
    Start(Box<start::Args>),
    /// List runs, the newest first
    #[command(
        after_help = "Example:\n  tidemill workflow list --type order --status running --where city='\"Kyiv\"'"
    )]
    List(List),
    /// Show a run: its journal as a timeline, and why it is not moving
    #[command(after_help = "Example:\n  tidemill workflow show order-7")]
    Show {
        /// Which run
        run: RunId,
    },
    /// Print a run's journal, one entry a line
    #[command(
        after_help = "Example:\n  tidemill workflow journal order-7 --export journals/order-7.json\n\n\
                      An exported journal is a test: `replay_dir(\"journals/*.json\")` holds code against it."
    )]
    Journal {
        /// Which run
        run: RunId,
        /// Write it to this file instead, as tests read it; - for stdout
        #[arg(long, value_name = "FILE")]
        export: Option<String>,
    },
    /// Wait for a run's end and print its output
    #[command(after_help = "Example:\n  tidemill workflow wait order-7 --timeout 30s")]
    Wait {
        /// Which run
        run: RunId,
        /// How long to wait
        #[arg(long, value_name = "DURATION", value_parser = when::duration)]
        timeout: Option<Duration>,
    },
    /// Send a signal to a run
    #[command(
        after_help = "Example:\n  tidemill workflow signal order-7 approve --payload '{\"by\":\"ann\"}'"
    )]
    Signal(Message),
    /// Ask a run something; a worker that knows its code answers
    #[command(after_help = "Example:\n  tidemill workflow query order-7 status")]
    Query(Message),
    /// Ask a run for a change and print its answer
    #[command(after_help = "Example:\n  tidemill workflow update order-7 set_limit --payload 100")]
    Update {
        #[command(flatten)]
        message: Message,
        /// How long to wait for the answer. The run gets the update all the same
        #[arg(long, value_name = "DURATION", value_parser = when::duration, default_value = "30s")]
        timeout: Duration,
    },
    /// Ask a run to end; its code may clean up first
    #[command(after_help = "Example:\n  tidemill workflow cancel order-7 --reason 'ordered twice'")]
    Cancel(End),
    /// End a run at once, without asking its code
    #[command(after_help = "Example:\n  tidemill workflow terminate order-7 --reason 'runs amok'")]
    Terminate(End),
    /// Rewind a run to one of its commits, as a new run
    #[command(
        after_help = "Example:\n  tidemill workflow journal order-7      # shows the positions of its commits\n  \
                      tidemill workflow reset order-7 --to 4"
    )]
    Reset {
        /// Which run
        run: RunId,
        /// The position of the commit to go back to
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

/// Which runs.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Of this type only
    #[arg(long = "type", value_name = "WORKFLOW")]
    workflow: Option<WorkflowName>,
    /// In this state only: running, completed, failed, cancelled or terminated
    #[arg(long)]
    status: Option<RunStatus>,
    /// Started at this time or later: RFC 3339, or 2h for two hours ago
    #[arg(long, value_name = "TIME", value_parser = past)]
    since: Option<When>,
    /// Started before this time
    #[arg(long, value_name = "TIME", value_parser = past)]
    before: Option<When>,
    /// With this search attribute; the value is JSON, or else a text
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = attribute)]
    attribute: Option<(Topic, tidemill::workflow::Json)>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Something to say to a run.
#[derive(Debug, clap::Args)]
pub(crate) struct Message {
    /// Which run
    run: RunId,
    /// What is said
    name: Topic,
    /// With what: JSON, @FILE or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "null")]
    payload: String,
}

/// Which runs to end, and why.
#[derive(Debug, clap::Args)]
pub(crate) struct End {
    /// Which runs
    #[arg(required = true)]
    runs: Vec<RunId>,
    /// Why, for whoever looks at it later
    #[arg(long, default_value = "")]
    reason: String,
}

pub(crate) async fn run(action: Action, context: &Context) -> anyhow::Result<ExitCode> {
    match action {
        Action::Start(args) => start::run(*args, context).await?,
        Action::List(list) => look::list(list, context).await?,
        Action::Show { run } => look::show(run, context).await?,
        Action::Journal { run, export: None } => look::journal(run, context).await?,
        Action::Journal { run, export: Some(file) } => look::export(run, &file, context).await?,
        Action::Wait { run, timeout } => start::wait(&context.client().await?, run, timeout, context).await?,
        Action::Signal(message) => tell::signal(message, context).await?,
        Action::Query(message) => tell::query(message, context).await?,
        Action::Update { message, timeout } => tell::update(message, timeout, context).await?,
        Action::Cancel(end) => return tell::end(end, tell::Way::Cancel, context).await,
        Action::Terminate(end) => return tell::end(end, tell::Way::Terminate, context).await,
        Action::Reset { run, to } => tell::reset(run, to, context).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A moment in the past: a time, or how long ago.
fn past(text: &str) -> Result<When, String> {
    if let Ok(ago) = when::duration(text) {
        return Ok(When::In(ago));
    }
    let wrong = "write it like 2025-01-31T09:00:00Z, or like 2h for two hours ago";
    // What lies ahead, such as +5m, has no runs yet.
    when::when(text).ok().filter(|when| matches!(when, When::At(_))).ok_or_else(|| wrong.to_owned())
}

/// `city=Kyiv`, `city="Kyiv"` or `number=7`.
pub(super) fn attribute(text: &str) -> Result<(Topic, tidemill::workflow::Json), String> {
    let (name, value) = text.split_once('=').ok_or("write it like city=Kyiv or number=7")?;
    let name = Topic::new(name).map_err(|error| error.to_string())?;
    let json =
        tidemill::workflow::Json::from_text(value).or_else(|_| tidemill::workflow::Json::from_value(value));
    Ok((name, json.map_err(|error| error.to_string())?))
}
