//! The command line: global flags and the commands.

use std::process::ExitCode;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::command::{
    bench, browser, chain, dev, dlq, doctor, enqueue, fleet, gateway, job, queue, session, worker, workflow,
};
use crate::consumer_group::GroupRule;
use crate::context::Context;
use crate::output::log::{LogFormat, LogLevel};

/// Background jobs and durable workflows on the store you already have: SQLite, Redis or
/// PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "tidemill", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

const EXAMPLES: &str = "\
Examples:
  tidemill dev --demo
  tidemill worker --queue mail --exec 'send_email=./mail.py'
  tidemill enqueue send_email --queue mail --payload '{\"to\":\"ada\"}' --wait

Settings are read from flags, then from environment variables (TIDEMILL_STORE, TIDEMILL_WAKE, TIDEMILL_NAMESPACE, TIDEMILL_GROUP, TIDEMILL_JSON, \
TIDEMILL_MAX_PAYLOAD, TIDEMILL_LOG_FORMAT), then from tidemill.toml in the current directory (store, wake, namespace, group, \
json, max_payload, log_format).

Exit code: 0 success, 1 failure, 2 invalid usage.";

/// Flags of every command.
#[derive(Debug, Args)]
pub(crate) struct GlobalArgs {
    /// Store URL: sqlite:FILE, sqlite::memory:, postgres://…, redis://…, redis+cluster://…,
    /// redis+sentinel://HOST,HOST/MASTER, redis+unix:///SOCKET or unix:///SOCKET; rediss… for TLS
    /// [env: TIDEMILL_STORE] [default: sqlite:tidemill.db]
    #[arg(long, global = true, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<String>,

    /// Transport of wake-ups between processes on an SQL store: redis://…, `listen` (PostgreSQL's
    /// LISTEN, the default there) or `none` [env: TIDEMILL_WAKE]
    #[arg(long, global = true, value_name = "URL|listen|none", help_heading = "Store")]
    pub(crate) wake: Option<String>,

    /// Prefix of every Redis key and channel, such as `msaas:dev:` [env: TIDEMILL_NAMESPACE]
    /// [default: tidemill:]
    #[arg(long, global = true, value_name = "NS", help_heading = "Store")]
    pub(crate) namespace: Option<String>,

    /// Redis consumer group of one queue, or of all queues [env: TIDEMILL_GROUP]
    #[arg(long = "group", global = true, value_name = "[QUEUE=]GROUP", help_heading = "Store")]
    pub(crate) groups: Vec<GroupRule>,

    /// Maximum payload size in bytes [env: TIDEMILL_MAX_PAYLOAD] [default: 1048576]
    #[arg(long, global = true, value_name = "BYTES", help_heading = "Store")]
    pub(crate) max_payload: Option<usize>,

    /// Print only JSON on stdout, one object per line [env: TIDEMILL_JSON]
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,

    /// Format of the log on stderr [env: TIDEMILL_LOG_FORMAT] [default: text]
    #[arg(long, global = true, value_name = "text|json", value_enum, hide_possible_values = true)]
    #[arg(help_heading = "Output")]
    pub(crate) log_format: Option<LogFormat>,

    /// Log more on stderr: -v every finished job, -vv the worker's parts
    #[arg(long, short, global = true, action = ArgAction::Count, help_heading = "Output")]
    pub(crate) verbose: u8,
}

/// The command to run.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Dev(dev::DevArgs),
    Worker(worker::WorkerArgs),
    Enqueue(enqueue::EnqueueArgs),
    #[command(subcommand)]
    Job(job::JobCommand),
    #[command(subcommand)]
    Chain(chain::ChainCommand),
    #[command(subcommand)]
    Workflow(workflow::WorkflowCommand),
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    Browser(browser::BrowserArgs),
    Gateway(gateway::GatewayArgs),
    #[command(subcommand)]
    Session(session::SessionCommand),
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    Doctor(doctor::DoctorArgs),
    Bench(bench::BenchArgs),
}

impl CliCommand {
    /// The log level. The demo hides warnings, because its failing jobs are intended.
    pub(crate) fn log_level(&self, verbose: u8) -> LogLevel {
        match self {
            Self::Dev(args) if args.is_demo() && verbose == 0 => LogLevel::Errors,
            _ => LogLevel::from_verbosity(verbose),
        }
    }

    pub(crate) async fn run(self, context: &Context) -> anyhow::Result<ExitCode> {
        match self {
            Self::Dev(args) => dev::run(args, context).await,
            Self::Worker(args) => worker::run(args, context).await,
            Self::Enqueue(args) => enqueue::run(args, context).await,
            Self::Job(command) => job::run(command, context).await,
            Self::Chain(command) => chain::run(command, context).await,
            Self::Workflow(command) => workflow::run(command, context).await,
            Self::Queue(command) => queue::run(command, context).await,
            Self::Dlq(command) => dlq::run(command, context).await,
            Self::Browser(args) => browser::run(args, context).await,
            Self::Gateway(args) => gateway::run(args, context).await,
            Self::Session(command) => session::run(command, context).await,
            Self::Fleet(command) => fleet::run(command, context).await,
            Self::Doctor(args) => doctor::run(args, context).await,
            Self::Bench(args) => bench::run(args, context).await,
        }
    }
}
