//! Benchmarks of the browser fleet and of jobs. The gateway is measured next to a direct
//! connection, in turn in one run, because only the ratio is meaningful on a shared machine.

#![allow(clippy::print_stdout, reason = "a command line prints to standard output")]

mod gateway_process;
mod histogram;
mod jobs;
mod leases;
mod overhead;
mod rescue;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures the browser fleet beside a direct connection.
#[derive(Debug, Parser)]
struct BenchCli {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// What the gateway adds to connecting, to a round trip and to the first page, and how much
    /// memory it takes.
    Gateway(GatewayBench),
    /// How long a lease takes in a large fleet, and how many commands it costs.
    Leases(LeasesBench),
    /// What jobs cost this process: enqueued one by one and in bulk, and worked off.
    Jobs(JobsBench),
    /// How late jobs of a killed worker run again, one in each of many queues.
    Rescue(RescueBench),
}

#[derive(Debug, clap::Args)]
struct GatewayBench {
    /// The store that the gateway uses.
    #[arg(long, default_value = "sqlite::memory:")]
    store: String,
    /// The program `tidemill`; beside this one unless given.
    #[arg(long)]
    tidemill: Option<PathBuf>,
    /// The real binary of Chromium or its headless shell.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How often each thing is measured.
    #[arg(long, default_value_t = 300)]
    samples: usize,
    /// How many sessions are open when memory is measured.
    #[arg(long, default_value_t = 200)]
    sessions: usize,
}

#[derive(Debug, clap::Args)]
struct LeasesBench {
    /// The store.
    #[arg(long, default_value = "sqlite::memory:")]
    store: String,
    /// How many members the fleet has.
    #[arg(long, default_value_t = 1000)]
    members: usize,
    /// How many leases a second.
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// For how long.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
}

#[derive(Debug, clap::Args)]
struct JobsBench {
    /// The store.
    #[arg(long, default_value = "sqlite::memory:")]
    store: String,
    /// How many jobs are added one by one.
    #[arg(long, default_value_t = 10_000)]
    single: usize,
    /// How many jobs are added in bulk.
    #[arg(long, default_value_t = 100_000)]
    bulk: usize,
    /// Measure jobs that run at most once.
    #[arg(long)]
    at_most_once: bool,
}

#[derive(Debug, clap::Args)]
struct RescueBench {
    /// The store; not one in memory, because two processes use it.
    #[arg(long)]
    store: String,
    /// The program `tidemill`; beside this one unless given.
    #[arg(long)]
    tidemill: Option<PathBuf>,
    /// How many queues there are.
    #[arg(long, default_value_t = 200)]
    queues: usize,
    /// For how many seconds jobs are leased.
    #[arg(long, default_value_t = 3)]
    lease: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    match BenchCli::parse().command {
        BenchCommand::Gateway(args) => overhead::run(&args).await,
        BenchCommand::Leases(args) => leases::run(&args).await,
        BenchCommand::Jobs(args) => jobs::run(&args).await,
        BenchCommand::Rescue(args) => rescue::run(&args).await,
    }
}
