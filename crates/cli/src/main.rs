//! The binary `tidemill`: reads what is wanted, does it, and says in its exit code how it went.

mod args;
mod bench;
mod browse;
mod command;
mod config;
mod confirm;
mod connect;
mod context;
mod demo;
mod exec;
mod failure;
mod group;
mod lending;
mod output;
mod payload;
mod serve;
mod several;
mod signals;
mod view;
mod when;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;

use crate::args::Cli;
use crate::config::Settings;
use crate::context::Context;

/// What is still under way when a command has ended gets this long: a thread that reads, at most.
const TO_END: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let cli = Cli::parse();
    run(cli).unwrap_or_else(|error| failure::report(&error))
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let settings = Settings::resolve(cli.global, |name| std::env::var(name).ok())?;
    let level = cli.command.log_level(settings.verbose);
    let context = Context::new(settings, level);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let ended = runtime.block_on(async {
        let ended = cli.command.run(&context).await;
        context.flush().await;
        ended
    });
    context.screen.leave();
    runtime.shutdown_timeout(TO_END);
    ended
}
