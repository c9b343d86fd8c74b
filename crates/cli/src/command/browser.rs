//! `tidemill browser`: keeps browsers ready on this machine, for whoever asks a gateway for one.

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
use crate::failure::Complaint;
use crate::output::printable;
use crate::signals::Signals;
use crate::when;

/// Keep browsers ready on this machine, and enter them into the fleet
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,

    /// How many browsers are ready at any time, each for one session; 0: only Playwright servers
    #[arg(long, value_name = "N", default_value_t = 1)]
    spare: usize,

    /// How many browsers for one session there may be, in use and spare ones together
    #[arg(long, value_name = "N", default_value_t = 8)]
    most: usize,

    #[command(flatten)]
    servers: Servers,

    /// Where gateways on other machines connect; browsers themselves listen on this machine only
    #[arg(long, value_name = "ADDRESS", requires = "advertise")]
    listen: Option<SocketAddr>,

    /// How gateways on other machines get there
    #[arg(long, value_name = "HOST:PORT", requires = "listen")]
    advertise: Option<String>,

    /// How long a browser may take to start
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = when::duration)]
    start_time: Duration,

    /// How long sessions may go on when this is stopped
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = when::duration)]
    grace: Duration,
}

/// Which browser.
#[derive(Debug, clap::Args)]
struct Which {
    /// Which browser: headless-shell (Chromium without what only a screen needs), chromium or firefox
    #[arg(long, value_name = "ENGINE", default_value = "headless-shell", value_parser = engine)]
    engine: Engine,

    /// Its program [default: where such programs usually are]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,

    /// Instead of a browser: a command that prints a ws:// address when it is ready, by way of `sh -c`
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["engine", "binary", "args"])]
    command: Option<String>,

    /// What clients ask for to get the command
    #[arg(long, value_name = "KIND", requires = "command", default_value = "chromium")]
    kind: WorkerKind,

    /// What clients speak to the command
    #[arg(long, value_name = "OFFER", requires = "command", default_value = "cdp")]
    offer: Offer,

    /// A flag that every browser is started with, such as --arg=--lang=de
    #[arg(long = "arg", value_name = "FLAG", allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Playwright's servers.
#[derive(Debug, clap::Args)]
struct Servers {
    /// A directory with versions of playwright-core, such as node_modules: each gets a server
    #[arg(long, value_name = "DIR")]
    playwright: Vec<PathBuf>,

    /// How many sessions at once a Playwright server has
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    concurrent: u32,

    /// How many sessions a Playwright server has before another takes its place; 0: any number
    #[arg(long, value_name = "N", default_value_t = 50)]
    lifetime: u32,
}

const EXAMPLES: &str = "\
A browser is started before a client comes, has one session, and ends with it; what it wrote goes with it. When this \
is stopped (or killed), so is every browser, and no file of theirs is left.

Examples:
  tidemill browser --spare 2 --most 10
  tidemill browser --engine firefox
  tidemill browser --spare 0 --playwright node_modules --concurrent 5 --lifetime 50
  tidemill browser --listen 0.0.0.0:7719 --advertise browsers-1:7719";

fn engine(name: &str) -> Result<Engine, String> {
    name.parse()
}

/// What happens, for programs.
#[derive(Debug, Serialize)]
struct Said {
    event: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keeps: Vec<String>,
}

pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let client = context.client_or_new().await?;
    let ready = args.agent(&client).build().map_err(complaint)?;
    let mut signals = Signals::listen()?;
    greet(&ready, context)?;
    let stop = CancellationToken::new();
    let run = Box::pin(ready.run_until(stop.cancelled()));
    let twice = async {
        signals.next().await;
        context.screen.say("stopping: sessions may end, nobody gets a new one (once more: at once)");
        stop.cancel();
        signals.next().await;
    };
    tokio::select! {
        ended = run => ended.map_err(complaint)?,
        () = twice => return Err(Complaint::failed("stopped at once").into()),
    }
    context.out.result("ended", &Said { event: "ended", keeps: Vec::new() })?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn agent(self, client: &Client) -> Agent {
        let Servers { playwright, concurrent, lifetime } = self.servers;
        let mut agent = self.which.on(Agent::new(client)).spare(self.spare).most(self.most);
        agent =
            agent.grace(self.grace).start_time(self.start_time).capacity(Capacity { concurrent, lifetime });
        if let Some((listen, advertise)) = self.listen.zip(self.advertise) {
            agent = agent.listen(listen, advertise);
        }
        playwright.into_iter().fold(agent, Agent::playwright)
    }
}

impl Which {
    fn on(self, mut agent: Agent) -> Agent {
        let Self { engine, binary, command, kind, offer, args } = self;
        agent = match command {
            None => agent.engine(engine),
            Some(command) => agent.engine(Engine::Command { command, kind, offer }),
        };
        agent = args.into_iter().fold(agent, Agent::arg);
        binary.into_iter().fold(agent, Agent::binary)
    }
}

fn greet(ready: &ReadyAgent, context: &Context) -> std::io::Result<()> {
    let keeps = ready.describe_pools();
    let text = format!("keeps {}", printable(&keeps.join(", ")));
    context.out.result(text, &Said { event: "started", keeps })
}

fn complaint(error: AgentError) -> anyhow::Error {
    if !error.is_usage_error() {
        return error.into();
    }
    let message = error.to_string();
    Complaint::wrong_use(message).into()
}
