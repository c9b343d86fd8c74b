//! The binary `tidemill`: parses the command line, runs the command and returns its exit code.

mod args;
mod bench;
mod browser_flags;
mod command;
mod config;
mod confirm;
mod connect;
mod consumer_group;
mod context;
mod demo;
mod error;
mod exec;
mod for_each_id;
mod output;
mod pages;
mod payload;
mod serve;
mod signals;
mod time;
mod view;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;

use crate::args::Cli;
use crate::config::CliConfig;
use crate::context::Context;

/// Time that blocking tasks have to end after the command: at most a thread that reads stdin.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let cli = Cli::parse();
    run(cli).unwrap_or_else(|error| error::report(&error))
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let config = CliConfig::resolve(cli.global, |name| std::env::var(name).ok())?;
    let level = cli.command.log_level(config.verbose);
    let context = Context::new(config, level);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let ended = runtime.block_on(async {
        let ended = cli.command.run(&context).await;
        context.flush().await;
        ended
    });
    context.screen.restore();
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    ended
}
