//! What can be said on the command line.

use std::process::ExitCode;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::command::{
    bench, browser, chain, dev, dlq, doctor, enqueue, fleet, gateway, job, queue, session, worker, workflow,
};
use crate::context::Context;
use crate::group::GroupRule;
use crate::output::log::{Format, Level};

/// Background jobs and durable workflows on the store you already have: SQLite, Redis or PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "tidemill", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tidemill dev --demo
  tidemill worker --queue mail --exec 'send_email=./mail.py'
  tidemill enqueue send_email --queue mail --payload '{\"to\":\"ada\"}' --wait

Settings are flags, or else variables (TIDEMILL_STORE, TIDEMILL_WAKE, TIDEMILL_NAMESPACE, TIDEMILL_GROUP, TIDEMILL_JSON, \
TIDEMILL_MAX_PAYLOAD, TIDEMILL_LOG_FORMAT), or else lines of tidemill.toml in the current directory (store, wake, namespace, group, \
json, max_payload, log_format).

Exit code: 0 done, 1 failed, 2 wrong use.";

/// What every command understands.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Where the jobs live: sqlite:FILE, sqlite::memory:, postgres://…, redis://…, redis+cluster://…,
    /// redis+sentinel://HOST,HOST/MASTER, redis+unix:///SOCKET or unix:///SOCKET; rediss… for TLS
    /// [env: TIDEMILL_STORE] [default: sqlite:tidemill.db]
    #[arg(long, global = true, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<String>,

    /// What wakes idle workers of an SQL store: redis://…, `listen` (PostgreSQL's own, the default there) or
    /// `none` [env: TIDEMILL_WAKE]
    #[arg(long, global = true, value_name = "URL|listen|none", help_heading = "Store")]
    pub(crate) wake: Option<String>,

    /// The prefix of every Redis key and channel, such as `msaas:dev:` [env: TIDEMILL_NAMESPACE]
    /// [default: tidemill:]
    #[arg(long, global = true, value_name = "NS", help_heading = "Store")]
    pub(crate) namespace: Option<String>,

    /// The Redis consumer group of a queue, or of all [env: TIDEMILL_GROUP]
    #[arg(long = "group", global = true, value_name = "[QUEUE=]GROUP", help_heading = "Store")]
    pub(crate) groups: Vec<GroupRule>,

    /// The largest payload, in bytes [env: TIDEMILL_MAX_PAYLOAD] [default: 1048576]
    #[arg(long, global = true, value_name = "BYTES", help_heading = "Store")]
    pub(crate) max_payload: Option<usize>,

    /// Print JSON, one object a line, and nothing else on stdout [env: TIDEMILL_JSON]
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,

    /// How the log on stderr looks [env: TIDEMILL_LOG_FORMAT] [default: text]
    #[arg(long, global = true, value_name = "text|json", value_enum, hide_possible_values = true)]
    #[arg(help_heading = "Output")]
    pub(crate) log_format: Option<Format>,

    /// Say more on stderr: every job that ends; twice: what the parts do
    #[arg(long, short, global = true, action = ArgAction::Count, help_heading = "Output")]
    pub(crate) verbose: u8,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Dev(dev::Args),
    Worker(worker::Args),
    Enqueue(enqueue::Args),
    #[command(subcommand)]
    Job(job::Action),
    #[command(subcommand)]
    Chain(chain::Action),
    #[command(subcommand)]
    Workflow(workflow::Action),
    #[command(subcommand)]
    Queue(queue::Action),
    #[command(subcommand)]
    Dlq(dlq::Action),
    Browser(browser::Args),
    Gateway(gateway::Args),
    #[command(subcommand)]
    Session(session::Action),
    #[command(subcommand)]
    Fleet(fleet::Action),
    Doctor(doctor::Args),
    Bench(bench::Args),
}

impl Command {
    /// How much the log says. A demo's failures are part of the show.
    pub(crate) fn log_level(&self, verbose: u8) -> Level {
        match self {
            Self::Dev(args) if args.is_demo() && verbose == 0 => Level::Errors,
            _ => Level::of(verbose),
        }
    }

    pub(crate) async fn run(self, context: &Context) -> anyhow::Result<ExitCode> {
        match self {
            Self::Dev(args) => dev::run(args, context).await,
            Self::Worker(args) => worker::run(args, context).await,
            Self::Enqueue(args) => enqueue::run(args, context).await,
            Self::Job(action) => job::run(action, context).await,
            Self::Chain(action) => chain::run(action, context).await,
            Self::Workflow(action) => workflow::run(action, context).await,
            Self::Queue(action) => queue::run(action, context).await,
            Self::Dlq(action) => dlq::run(action, context).await,
            Self::Browser(args) => browser::run(args, context).await,
            Self::Gateway(args) => gateway::run(args, context).await,
            Self::Session(action) => session::run(action, context).await,
            Self::Fleet(action) => fleet::run(action, context).await,
            Self::Doctor(args) => doctor::run(args, context).await,
            Self::Bench(args) => bench::run(args, context).await,
        }
    }
}
