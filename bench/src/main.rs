//! Measures the browser fleet. Everything is measured beside a direct connection, turn by turn in one run, because only
//! the ratio says anything on a machine that others use too.

#![allow(clippy::print_stdout, reason = "a command line talks on standard output")]

mod figures;
mod gateway;
mod jobs;
mod leases;
mod overhead;
mod rescue;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures the browser fleet beside a direct connection.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// What the gateway adds to connecting, to a round trip and to the first page, and how much memory it takes.
    Gateway(Gateway),
    /// How long a lease takes in a large fleet, and how many commands it costs.
    Leases(Leases),
    /// What jobs cost this process: enqueued one by one and in bulk, and worked off.
    Jobs(Jobs),
    /// How late jobs of a killed worker run again, one in each of many queues.
    Rescue(Rescue),
}

#[derive(Debug, clap::Args)]
struct Gateway {
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
struct Leases {
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
struct Jobs {
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
struct Rescue {
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
    match Args::parse().what {
        What::Gateway(wanted) => overhead::run(&wanted).await,
        What::Leases(wanted) => leases::run(&wanted).await,
        What::Jobs(wanted) => jobs::run(&wanted).await,
        What::Rescue(wanted) => rescue::run(&wanted).await,
    }
}
