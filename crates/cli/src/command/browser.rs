//! `tidemill browser`: runs browsers on this machine for clients of a gateway.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tidemill::Client;
use tidemill::fleet::agent::{Agent, AgentError, Engine, ReadyAgent};
use tidemill::fleet::{Capacity, Offer, WorkerKind};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::error::CliError;
use crate::output::printable;
use crate::signals::Signals;
use crate::time;

/// Run browsers on this machine and register them in the fleet
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BrowserArgs {
    #[command(flatten)]
    engine_args: EngineArgs,

    /// Idle browsers to keep ready, each for one session; 0: only Playwright servers
    #[arg(long, value_name = "N", default_value_t = 1)]
    spare: usize,

    /// Maximum number of single-session browsers, busy and idle
    #[arg(long, value_name = "N", default_value_t = 8)]
    most: usize,

    #[command(flatten)]
    servers: PlaywrightArgs,

    /// Address to listen on for gateways on other machines; browsers listen on this machine only
    #[arg(long, value_name = "ADDRESS", requires = "advertise")]
    listen: Option<SocketAddr>,

    /// Address under which gateways on other machines reach this agent
    #[arg(long, value_name = "HOST:PORT", requires = "listen")]
    advertise: Option<String>,

    /// Time that a browser has to start
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = time::parse_duration)]
    start_time: Duration,

    /// Time that sessions have to end after a stop signal
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = time::parse_duration)]
    grace: Duration,
}

/// Flags that select the browser.
#[derive(Debug, clap::Args)]
struct EngineArgs {
    /// Browser: headless-shell (Chromium without a display), chromium or firefox
    #[arg(long, value_name = "ENGINE", default_value = "headless-shell", value_parser = parse_engine)]
    engine: Engine,

    /// Path of the browser's binary [default: searched in the usual locations]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,

    /// Run this command instead of a browser, with `sh -c`; it prints a ws:// address when it is
    /// ready
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["engine", "binary", "args"])]
    command: Option<String>,

    /// Kind of browser that the command provides
    #[arg(long, value_name = "KIND", requires = "command", default_value = "chromium")]
    kind: WorkerKind,

    /// Protocol that the command speaks
    #[arg(long, value_name = "OFFER", requires = "command", default_value = "cdp")]
    offer: Offer,

    /// Additional flag for every browser, such as --arg=--lang=de
    #[arg(long = "arg", value_name = "FLAG", allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Flags of Playwright servers.
#[derive(Debug, clap::Args)]
struct PlaywrightArgs {
    /// Directory with playwright-core packages, such as node_modules: each version gets a server
    #[arg(long, value_name = "DIR")]
    playwright: Vec<PathBuf>,

    /// Maximum concurrent sessions of a Playwright server
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    concurrent: u32,

    /// Sessions after which a Playwright server is replaced; 0: unlimited
    #[arg(long, value_name = "N", default_value_t = 50)]
    lifetime: u32,
}

const EXAMPLES: &str = "\
Browsers start before clients connect. Each has one session and ends with it, and its files are deleted. When this \
command stops (or is killed), all browsers stop and their files are deleted.

Examples:
  tidemill browser --spare 2 --most 10
  tidemill browser --engine firefox
  tidemill browser --spare 0 --playwright node_modules --concurrent 5 --lifetime 50
  tidemill browser --listen 0.0.0.0:7719 --advertise browsers-1:7719";

fn parse_engine(name: &str) -> Result<Engine, String> {
    name.parse()
}

/// An event of the agent, as JSON.
#[derive(Debug, Serialize)]
struct BrowserEvent {
    event: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keeps: Vec<String>,
}

pub(crate) async fn run(args: BrowserArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let client = context.client_or_new().await?;
    let ready = args.agent(&client).build().map_err(to_cli_error)?;
    let mut signals = Signals::listen()?;
    print_started(&ready, context)?;
    let stop = CancellationToken::new();
    let run = Box::pin(ready.run_until(stop.cancelled()));
    let signalled = async {
        signals.next().await;
        context.screen.print_line("stopping: sessions may end, nobody gets a new one (once more: at once)");
        stop.cancel();
        signals.next().await;
    };
    tokio::select! {
        ended = run => ended.map_err(to_cli_error)?,
        () = signalled => return Err(CliError::failed("stopped at once").into()),
    }
    context.printer.result("ended", &BrowserEvent { event: "ended", keeps: Vec::new() })?;
    Ok(ExitCode::SUCCESS)
}

impl BrowserArgs {
    fn agent(self, client: &Client) -> Agent {
        let PlaywrightArgs { playwright, concurrent, lifetime } = self.servers;
        let mut agent = self.engine_args.apply_to(Agent::new(client)).spare(self.spare).most(self.most);
        agent =
            agent.grace(self.grace).start_time(self.start_time).capacity(Capacity { concurrent, lifetime });
        if let Some((listen, advertise)) = self.listen.zip(self.advertise) {
            agent = agent.listen(listen, advertise);
        }
        playwright.into_iter().fold(agent, Agent::playwright)
    }
}

impl EngineArgs {
    fn apply_to(self, mut agent: Agent) -> Agent {
        let Self { engine, binary, command, kind, offer, args } = self;
        agent = match command {
            None => agent.engine(engine),
            Some(command) => agent.engine(Engine::Command { command, kind, offer }),
        };
        agent = args.into_iter().fold(agent, Agent::arg);
        binary.into_iter().fold(agent, Agent::binary)
    }
}

fn print_started(ready: &ReadyAgent, context: &Context) -> std::io::Result<()> {
    let keeps = ready.describe_pools();
    let text = format!("keeps {}", printable(&keeps.join(", ")));
    context.printer.result(text, &BrowserEvent { event: "started", keeps })
}

fn to_cli_error(error: AgentError) -> anyhow::Error {
    if !error.is_usage_error() {
        return error.into();
    }
    let message = error.to_string();
    CliError::usage(message).into()
}
