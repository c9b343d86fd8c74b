//! `tidemill bench`: measures this store with this build, next to a loop over the bare driver.

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use tidemill::Client;
use tidemill::baseline::Baseline;

use crate::bench::{self, BenchError, BenchPlan, ChainRow, DepthRow, JobBenchRow, RunRow};
use crate::connect;
use crate::context::Context;
use crate::error::CliError;
use crate::output::{Cell, TextTable, thousands};
use crate::signals::Signals;

/// Interval at which the queues of an interrupted measurement are purged.
const CLEAR_INTERVAL: Duration = Duration::from_millis(100);

/// Time that an interrupted measurement has to end by itself.
const CUT_SHORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Measure this store with this build, next to a loop over the bare driver
///
/// Runs the cheapest loop that the store's driver allows, and Tidemill's own enqueue and work of
/// no-op jobs, in turn. Prints both with their ratio. Uses its own queue, `tidemill-bench`, and
/// leaves nothing behind.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tidemill bench --store redis://127.0.0.1 --jobs 200000 --json\n  tidemill bench --chains\n  tidemill bench --workflows 2000"
)]
pub(crate) struct BenchArgs {
    /// Measure chains instead: started one by one and in batches of 100, and ended in transactions
    #[arg(long, conflicts_with = "samples")]
    chains: bool,

    /// Measure this many runs of a workflow with three activities instead, sequentially and
    /// concurrently
    #[arg(long, value_name = "N", conflicts_with_all = ["chains", "jobs", "samples", "depth"],
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    workflows: Option<u64>,

    /// Measure claims of 100 jobs instead, in queues of these depths
    #[arg(long, value_name = "N,N", value_delimiter = ',', conflicts_with_all = ["chains", "jobs", "rounds"],
        value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    depth: Vec<u64>,

    /// Jobs per round [default: 200000, or 5000 chains]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    jobs: Option<u64>,

    /// Rounds, each of the raw loop and of Tidemill
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,

    /// Jobs whose latency from enqueue to start is measured, at 100 jobs per second; or claims at
    /// each depth
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    samples: u64,
}

pub(crate) async fn run(args: BenchArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let plan = BenchPlan {
        jobs: number(args.workflows.or(args.jobs).unwrap_or(if args.chains { 5_000 } else { 200_000 })),
        rounds: number(args.rounds),
        latency_samples: number(args.samples),
    };
    let client = context.standalone_client().await?;
    let baselines = connect::client_builder(&context.config)?.baselines().await?;
    let status_line = context.screen.line();
    let report_progress = |text: &str| {
        if context.screen.is_live() {
            status_line.set_message(text.to_owned())
        } else {
            context.screen.print_line(text)
        }
    };
    let depths: Vec<usize> = args.depth.iter().copied().map(number).collect();
    let measurement = async {
        Ok(if args.chains {
            BenchRows::Chains(bench::run_chains(&client, &baselines, &plan, &report_progress).await?)
        } else if args.workflows.is_some() {
            BenchRows::Workflows(bench::run_workflows(&client, &baselines, &plan, &report_progress).await?)
        } else if depths.is_empty() {
            BenchRows::Jobs(bench::run(&client, &baselines, &plan, &report_progress).await?)
        } else {
            BenchRows::Depths(bench::run_depths(&client, &baselines, &depths, &plan, &report_progress).await?)
        })
    };
    let measurement = run_until_interrupted(Box::pin(measurement), &client, &baselines).await;
    status_line.finish_and_clear();
    match measurement? {
        BenchRows::Chains(rows) => show_chains(&rows, context),
        BenchRows::Workflows(rows) => show_workflows(&rows, context),
        BenchRows::Depths(rows) => show_depths(&rows, context),
        BenchRows::Jobs(rows) => show_jobs(&rows, context),
    }
}

/// The rows of one benchmark.
enum BenchRows {
    Jobs(Vec<JobBenchRow>),
    Chains(Vec<ChainRow>),
    Workflows(Vec<RunRow>),
    Depths(Vec<DepthRow>),
}

/// Runs a measurement. A signal interrupts it: its queues are purged until it ends, so that its
/// worker settles the jobs that it holds and nothing stays in the store. A second signal ends it at
/// once.
async fn run_until_interrupted(
    mut measurement: Pin<Box<impl Future<Output = Result<BenchRows, BenchError>>>>,
    client: &Client,
    baselines: &[Box<dyn Baseline>],
) -> anyhow::Result<BenchRows> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        rows = &mut measurement => return Ok(rows?),
        () = signals.next() => {}
    }
    let cut_short = async {
        let empty = async {
            loop {
                bench::clear(client, baselines).await?;
                tokio::time::sleep(CLEAR_INTERVAL).await;
            }
        };
        let ended: Result<(), BenchError> = tokio::select! {
            // It fails because its jobs are gone.
            _ = &mut measurement => Ok(()),
            failed = empty => failed,
            () = tokio::time::sleep(CUT_SHORT_TIMEOUT) => Ok(()),
        };
        ended?;
        bench::clear(client, baselines).await
    };
    tokio::select! {
        cleared = cut_short => cleared?,
        () = signals.next() => {}
    }
    Err(CliError::failed("interrupted").into())
}

fn show_jobs(rows: &[JobBenchRow], context: &Context) -> anyhow::Result<ExitCode> {
    if context.printer.is_json() {
        rows.iter().try_for_each(|row| context.printer.json(row))?;
    } else {
        context.printer.table(&table(rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_chains(rows: &[ChainRow], context: &Context) -> anyhow::Result<ExitCode> {
    if context.printer.is_json() {
        rows.iter().try_for_each(|row| context.printer.json(row))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = TextTable::new(&["CHAINS", "AT ONCE", "RAW/S", "TIDEMILL/S", "RATIO", "RAW IS"]);
    for row in rows {
        table.row(vec![
            Cell::text(row.work),
            Cell::text(row.concurrency.to_string()),
            Cell::text(format_rate(row.raw_per_s)),
            Cell::text(format_rate(row.per_s)),
            Cell::text(format!("{:.2}", row.ratio)),
            Cell::text(row.raw),
        ]);
    }
    context.printer.table(&table)?;
    Ok(ExitCode::SUCCESS)
}

fn show_workflows(rows: &[RunRow], context: &Context) -> anyhow::Result<ExitCode> {
    if context.printer.is_json() {
        rows.iter().try_for_each(|row| context.printer.json(row))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = TextTable::new(&["RUNS AT ONCE", "RAW/S", "RUNS/S", "RATIO", "TRIPS/RUN", "P50 ms"]);
    for row in rows {
        table.row(vec![
            Cell::text(row.at_once.to_string()),
            Cell::text(format_rate(row.raw_per_s)),
            Cell::text(format_rate(row.per_s)),
            Cell::text(format!("{:.2}", row.ratio)),
            Cell::text(format!("{:.1}", row.trips_per_run)),
            Cell::text(row.p50_us.map_or_else(String::new, |us| format!("{:.2}", us / 1_000.0))),
        ]);
    }
    context.printer.table(&table)?;
    Ok(ExitCode::SUCCESS)
}

fn show_depths(rows: &[DepthRow], context: &Context) -> anyhow::Result<ExitCode> {
    if context.printer.is_json() {
        rows.iter().try_for_each(|row| context.printer.json(row))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = TextTable::new(&["WAITING", "CLAIM 100 ms", "", "AND SETTLE ms", "", "RAW ms", ""]);
    for row in rows {
        let ms = |micros: f64| Cell::text(format!("{:.2}", micros / 1_000.0));
        let times = |ratio: f64| Cell::text(format!("x {ratio:.2}"));
        table.row(vec![
            Cell::text(thousands(row.depth as u64)),
            ms(row.claim_p50_us),
            times(row.claim_to_first),
            ms(row.take_p50_us),
            times(row.take_to_first),
            ms(row.raw_take_p50_us),
            times(row.raw_to_first),
        ]);
    }
    context.printer.table(&table)?;
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[JobBenchRow]) -> TextTable {
    let mut table = TextTable::new(&[
        "WORK",
        "RAW/S",
        "TIDEMILL/S",
        "RATIO",
        "COMMANDS/JOB",
        "P50 ms",
        "P99 ms",
        "RAW P50 ms",
    ]);
    for row in rows {
        let ms = |micros: f64| Cell::text(format!("{:.2}", micros / 1_000.0));
        table.row(vec![
            Cell::text(row.work),
            Cell::text(format_rate(row.raw_per_s)),
            Cell::text(format_rate(row.per_s)),
            Cell::text(format!("{:.2}", row.ratio)),
            Cell::text(format!("{:.2}", row.commands_per_job)),
            ms(row.latency_p50_us),
            ms(row.latency_p99_us),
            row.raw_latency_p50_us.map_or_else(|| Cell::text("-"), ms),
        ]);
    }
    table
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is positive and far below u64::MAX"
)]
fn format_rate(rate: f64) -> String {
    thousands(rate.round() as u64)
}
