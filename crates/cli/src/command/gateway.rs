//! `tidemill gateway`: one address for all browsers.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tidemill::fleet::gateway::{AccessToken, Gateway, LeaseTooShort, ServeError};
use tidemill::fleet::{Capacity, WorkerDefaults};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::failure::Complaint;
use crate::signals::Signals;
use crate::when;

/// Tokens that are set by neither flag nor file, one a word.
const TOKENS: &str = "TIDEMILL_GATEWAY_TOKENS";

/// One address for all browsers: leases one to each client and passes bytes between them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where to listen; beyond this machine only with a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7718")]
    listen: SocketAddr,

    /// Who may come in, and with which of the scopes session, read and admin (all unless said); a flag is seen by others
    /// on this machine, a file or a variable is not [env: TIDEMILL_GATEWAY_TOKENS]
    #[arg(long = "token", value_name = "NAME=SECRET[:SCOPES]", value_parser = hidden)]
    tokens: Vec<Hidden>,

    /// A file with one token a line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// A name that clients call this gateway by, beside localhost and addresses
    #[arg(long = "allow-host", value_name = "HOST")]
    hosts: Vec<String>,

    /// Pages that may use this gateway, such as `https://a.example`; others may not
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    origins: Vec<String>,

    #[command(flatten)]
    limits: Limits,
}

/// How much there may be, and for how long.
#[derive(Debug, clap::Args)]
struct Limits {
    /// How many clients may wait for a kind of browser, at all gateways together; 0: nobody waits
    #[arg(long, value_name = "N", default_value_t = 100)]
    queue_size: u32,

    /// How long a client waits for a browser
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = when::duration)]
    queue_time: Duration,

    /// How long a session may last; 0: for ever
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = when::duration)]
    session_time: Duration,

    /// How long a session may be silent, with no byte either way; 0: for ever
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = when::duration)]
    idle_time: Duration,

    /// The longest a session may ask to outlive its connection by ?keep=
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = when::duration)]
    keep_most: Duration,

    /// How long a session is leased, 14s at least: so long are the browsers of a gateway that died not free
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = lease)]
    lease: Duration,

    /// How long a browser may take to answer before another is tried
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = when::duration)]
    dial_time: Duration,

    /// How many connections there may be, sessions and others
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    connections: usize,

    /// How long sessions may go on when the gateway is stopped
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = when::duration)]
    grace: Duration,

    /// How many sessions at once a worker has that another program entered
    #[arg(long, value_name = "N", default_value_t = 5)]
    foreign_concurrent: u32,

    /// How many sessions in its life a worker has that another program entered; 0: any number
    #[arg(long, value_name = "N", default_value_t = 50)]
    foreign_lifetime: u32,

    /// How long after its last heartbeat a worker is taken for dead that another program entered
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = when::duration)]
    foreign_fresh: Duration,
}

const EXAMPLES: &str = "\
Clients connect as they would to a browser:
  chromium.connect('ws://localhost:7718')             Playwright, of a version that the fleet has
  chromium.connectOverCDP('http://localhost:7718')    Playwright, of any version
  puppeteer.connect({ browserWSEndpoint: 'ws://localhost:7718' })
  puppeteer.connect({ browserWSEndpoint: 'ws://localhost:7718/firefox', protocol: 'webDriverBiDi' })

The URL may say more: /chromium, /firefox, /playwright/chromium, ?browser=, ?name=, ?meta.KEY=VALUE, ?keep=60s, ?token=.

Examples:
  tidemill gateway
  tidemill gateway --listen 0.0.0.0:7718 --token-file tokens --allow-host gate.internal
  tidemill gateway --queue-size 500 --queue-time 2m --session-time 1h";

/// A text that must not be shown, not even when it is wrong: clap would quote it.
#[derive(Clone)]
struct Hidden(String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

fn hidden(text: &str) -> Result<Hidden, Infallible> {
    Ok(Hidden(text.to_owned()))
}

/// What a gateway says of itself, for programs.
#[derive(Debug, Serialize)]
struct Said {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
}

pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let tokens = args.tokens()?;
    if tokens.is_empty() && !args.listen.ip().to_canonical().is_loopback() {
        return Err(exposed(args.listen).into());
    }
    let client = context.client_or_new().await?;
    let hurry = CancellationToken::new();
    let gateway = tokens
        .into_iter()
        .fold(args.gateway(Gateway::new(&client)), Gateway::token)
        .skip_grace(hurry.clone());
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    let listening = Said { event: "listening", address: Some(address) };
    context.out.result(format!("the gateway listens on ws://{address}"), &listening)?;
    serve(gateway, listener, hurry, context).await?;
    context.out.result("the gateway has ended", &Said { event: "ended", address: None })?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until a signal. A second one closes what is left, a third ends it there and then.
async fn serve(
    gateway: Gateway,
    listener: TcpListener,
    hurry: CancellationToken,
    context: &Context,
) -> anyhow::Result<()> {
    let (mut signals, stop) = (Signals::listen()?, CancellationToken::new());
    let stopped = stop.clone();
    let serving = Box::pin(gateway.serve(listener, async move { stopped.cancelled().await }));
    let thrice = async {
        signals.next().await;
        context.screen.say("stopping: sessions may end, nobody new is let in (once more: at once)");
        stop.cancel();
        signals.next().await;
        hurry.cancel();
        signals.next().await;
    };
    tokio::select! {
        served = serving => served.map_err(|error| match error {
            ServeError::Exposed(address) => exposed(address).into(),
            other => other.into(),
        }),
        () = thrice => Err(Complaint::failed("stopped at once")
            .hint("browsers that were in use are free when their leases are over")
            .into()),
    }
}

/// A lease under which no client loses its browser because the store is away for a moment.
fn lease(text: &str) -> Result<Duration, String> {
    let lease = when::duration(text)?;
    LeaseTooShort::check(lease).map(|()| lease).map_err(|error| error.to_string())
}

fn exposed(address: SocketAddr) -> Complaint {
    Complaint::wrong_use(ServeError::Exposed(address).to_string())
        .hint("--token NAME=SECRET, --token-file or TIDEMILL_GATEWAY_TOKENS lets in who has it")
}

impl Args {
    /// The tokens of flags and file, or else of the environment.
    fn tokens(&self) -> anyhow::Result<Vec<AccessToken>> {
        let mut texts: Vec<_> = self.tokens.iter().map(|token| token.0.clone()).collect();
        if let Some(file) = &self.token_file {
            let read =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            let lines = read.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            texts.extend(lines.map(str::to_owned));
        }
        if texts.is_empty() {
            let variable = std::env::var(TOKENS).unwrap_or_default();
            texts.extend(variable.split_whitespace().map(str::to_owned));
        }
        let read = |text: &String| {
            text.parse::<AccessToken>().map_err(|error| Complaint::wrong_use(error.to_string()).into())
        };
        texts.iter().map(read).collect()
    }

    fn gateway(&self, gateway: Gateway) -> Gateway {
        let limits = &self.limits;
        let unless_zero = |time: Duration| Some(time).filter(|time| !time.is_zero());
        let room = Capacity { concurrent: limits.foreign_concurrent, lifetime: limits.foreign_lifetime };
        let gateway = gateway
            .queue(limits.queue_size, limits.queue_time)
            .session_time(unless_zero(limits.session_time))
            .idle_time(unless_zero(limits.idle_time))
            .keep_most(limits.keep_most)
            .lease(limits.lease)
            .dial_time(limits.dial_time)
            .connections(limits.connections)
            .grace(limits.grace)
            .worker_defaults(WorkerDefaults { capacity: room, beat_timeout: limits.foreign_fresh });
        let gateway = self.hosts.iter().fold(gateway, |gateway, host| gateway.allow_host(host));
        self.origins.iter().fold(gateway, |gateway, origin| gateway.allow_origin(origin))
    }
}
