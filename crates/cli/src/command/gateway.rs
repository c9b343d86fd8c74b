//! `tidemill gateway`: one address for all browsers of the fleet.

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
use crate::error::CliError;
use crate::signals::Signals;
use crate::time;

/// The variable with tokens, separated by white space. Used if neither flag nor file sets any.
const TOKENS_VARIABLE: &str = "TIDEMILL_GATEWAY_TOKENS";

/// Run a gateway: leases a browser of the fleet to each client and relays its connection
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GatewayArgs {
    /// Address to listen on; other than loopback only with a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7718")]
    listen: SocketAddr,

    /// Access token, with the scopes session, read and admin (default: all). Other users of this
    /// machine can see flags, but not a file or a variable [env: TIDEMILL_GATEWAY_TOKENS]
    #[arg(long = "token", value_name = "NAME=SECRET[:SCOPES]", value_parser = parse_secret)]
    tokens: Vec<Secret>,

    /// File with one token per line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Host name under which clients reach this gateway, besides localhost and IP addresses
    #[arg(long = "allow-host", value_name = "HOST")]
    hosts: Vec<String>,

    /// Origin of web pages that may use this gateway, such as `https://a.example`
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    origins: Vec<String>,

    #[command(flatten)]
    limits: LimitArgs,
}

/// Limits and timeouts of the gateway.
#[derive(Debug, clap::Args)]
struct LimitArgs {
    /// Maximum number of clients that wait for a kind of browser, over all gateways; 0: none wait
    #[arg(long, value_name = "N", default_value_t = 100)]
    queue_size: u32,

    /// Time that a client waits for a browser
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = time::parse_duration)]
    queue_time: Duration,

    /// Maximum duration of a session; 0: unlimited
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = time::parse_duration)]
    session_time: Duration,

    /// Time without traffic after which a session ends; 0: unlimited
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = time::parse_duration)]
    idle_time: Duration,

    /// Maximum of ?keep=, the time that a session outlives its connection
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = time::parse_duration)]
    keep_most: Duration,

    /// Lease of a session, at least 14s: browsers of a gateway that died become free after this
    /// time
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_lease)]
    lease: Duration,

    /// Time that a browser has to answer before the gateway tries another
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = time::parse_duration)]
    dial_time: Duration,

    /// Maximum number of connections, sessions and others
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    connections: usize,

    /// Time that sessions have to end after a stop signal
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = time::parse_duration)]
    grace: Duration,

    /// Maximum concurrent sessions of a worker that another program registered
    #[arg(long, value_name = "N", default_value_t = 5)]
    foreign_concurrent: u32,

    /// Maximum sessions in the life of a worker that another program registered; 0: unlimited
    #[arg(long, value_name = "N", default_value_t = 50)]
    foreign_lifetime: u32,

    /// Time after its last heartbeat until a worker that another program registered counts as dead
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = time::parse_duration)]
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

/// A text that is never printed. A parse error in clap would quote the value.
#[derive(Clone)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

fn parse_secret(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret(text.to_owned()))
}

/// An event of the gateway, as JSON.
#[derive(Debug, Serialize)]
struct GatewayEvent {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
}

pub(crate) async fn run(args: GatewayArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let tokens = args.tokens()?;
    if tokens.is_empty() && !args.listen.ip().to_canonical().is_loopback() {
        return Err(exposed_error(args.listen).into());
    }
    let client = context.client_or_new().await?;
    let hurry = CancellationToken::new();
    let gateway = tokens
        .into_iter()
        .fold(args.configure(Gateway::new(&client)), Gateway::token)
        .skip_grace(hurry.clone());
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    let listening = GatewayEvent { event: "listening", address: Some(address) };
    context.printer.result(format!("the gateway listens on ws://{address}"), &listening)?;
    serve(gateway, listener, hurry, context).await?;
    context.printer.result("the gateway has ended", &GatewayEvent { event: "ended", address: None })?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until a signal. A second signal closes the remaining sessions, a third ends the process
/// at once.
async fn serve(
    gateway: Gateway,
    listener: TcpListener,
    hurry: CancellationToken,
    context: &Context,
) -> anyhow::Result<()> {
    let (mut signals, stop) = (Signals::listen()?, CancellationToken::new());
    let stopped = stop.clone();
    let serving = Box::pin(gateway.serve(listener, async move { stopped.cancelled().await }));
    let signalled = async {
        signals.next().await;
        context.screen.print_line("stopping: sessions may end, nobody new is let in (once more: at once)");
        stop.cancel();
        signals.next().await;
        hurry.cancel();
        signals.next().await;
    };
    tokio::select! {
        served = serving => served.map_err(|error| match error {
            ServeError::Exposed(address) => exposed_error(address).into(),
            other => other.into(),
        }),
        () = signalled => Err(CliError::failed("stopped at once")
            .hint("browsers that were in use are free when their leases are over")
            .into()),
    }
}

/// Rejects a lease under which clients would lose their browsers in a short outage of the store.
fn parse_lease(text: &str) -> Result<Duration, String> {
    let lease = time::parse_duration(text)?;
    LeaseTooShort::check(lease).map(|()| lease).map_err(|error| error.to_string())
}

fn exposed_error(address: SocketAddr) -> CliError {
    CliError::usage(ServeError::Exposed(address).to_string())
        .hint("--token NAME=SECRET, --token-file or TIDEMILL_GATEWAY_TOKENS lets in who has it")
}

impl GatewayArgs {
    /// The tokens from the flags and the file, or else from the environment.
    fn tokens(&self) -> anyhow::Result<Vec<AccessToken>> {
        let mut texts: Vec<_> = self.tokens.iter().map(|token| token.0.clone()).collect();
        if let Some(file) = &self.token_file {
            let read =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            let lines = read.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            texts.extend(lines.map(str::to_owned));
        }
        if texts.is_empty() {
            let variable = std::env::var(TOKENS_VARIABLE).unwrap_or_default();
            texts.extend(variable.split_whitespace().map(str::to_owned));
        }
        let read = |text: &String| {
            text.parse::<AccessToken>().map_err(|error| CliError::usage(error.to_string()).into())
        };
        texts.iter().map(read).collect()
    }

    fn configure(&self, gateway: Gateway) -> Gateway {
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
