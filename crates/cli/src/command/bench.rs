//! `tidemill bench`: measures this store with this build, next to the raw store loop.

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use tidemill::Client;
use tidemill::baseline::Baseline;

use crate::bench::{self, BenchError, ChainRow, DepthRow, Plan, Row, RunRow};
use crate::connect;
use crate::context::Context;
use crate::failure::Complaint;
use crate::output::{Cell, Table, thousands};
use crate::signals::Signals;

/// How often the queues of an interrupted measurement are emptied.
const CLEAR_INTERVAL: Duration = Duration::from_millis(100);

/// How long an interrupted measurement may take to end by itself.
const CUT_SHORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Measure this store with this build, next to the raw store loop
///
/// Runs the cheapest loop the store's driver allows and Tidemill's own enqueue and work of no-op jobs, in turn, and
/// prints both with their ratio. Uses a queue of its own, `tidemill-bench`, and leaves nothing behind.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tidemill bench --store redis://127.0.0.1 --jobs 200000 --json\n  tidemill bench --chains\n  tidemill bench --workflows 2000"
)]
pub(crate) struct Args {
    /// Measure chains instead: started one by one and in batches of 100, and ended in transactions
    #[arg(long, conflicts_with = "samples")]
    chains: bool,

    /// Measure this many runs of a workflow of three activities instead, one at a time and at once
    #[arg(long, value_name = "N", conflicts_with_all = ["chains", "jobs", "samples", "depth"],
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    workflows: Option<u64>,

    /// Measure claims of 100 instead, in queues in which so many jobs wait
    #[arg(long, value_name = "N,N", value_delimiter = ',', conflicts_with_all = ["chains", "jobs", "rounds"],
        value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    depth: Vec<u64>,

    /// Jobs per round [default: 200000, or 5000 chains]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    jobs: Option<u64>,

    /// Rounds, each of the raw loop and of Tidemill
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,

    /// Jobs whose way from enqueue to start is timed, at 100 a second; or claims at each depth
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    samples: u64,
}

pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let plan = Plan {
        jobs: number(args.workflows.or(args.jobs).unwrap_or(if args.chains { 5_000 } else { 200_000 })),
        rounds: number(args.rounds),
        latency_samples: number(args.samples),
    };
    let client = context.own_mill().await?;
    let floors = connect::connector(&context.settings)?.floors().await?;
    let line = context.screen.line();
    let say = |text: &str| {
        if context.screen.is_live() { line.set_message(text.to_owned()) } else { context.screen.say(text) }
    };
    let depths: Vec<usize> = args.depth.iter().copied().map(number).collect();
    let measured = async {
        Ok(if args.chains {
            Rows::Chains(bench::run_chains(&client, &floors, &plan, &say).await?)
        } else if args.workflows.is_some() {
            Rows::Workflows(bench::run_workflows(&client, &floors, &plan, &say).await?)
        } else if depths.is_empty() {
            Rows::Jobs(bench::run(&client, &floors, &plan, &say).await?)
        } else {
            Rows::Depths(bench::run_depths(&client, &floors, &depths, &plan, &say).await?)
        })
    };
    let measured = unless_interrupted(Box::pin(measured), &client, &floors).await;
    line.finish_and_clear();
    match measured? {
        Rows::Chains(rows) => show_chains(&rows, context),
        Rows::Workflows(rows) => show_workflows(&rows, context),
        Rows::Depths(rows) => show_depths(&rows, context),
        Rows::Jobs(rows) => show_jobs(&rows, context),
    }
}

/// What was measured.
enum Rows {
    Jobs(Vec<Row>),
    Chains(Vec<ChainRow>),
    Workflows(Vec<RunRow>),
    Depths(Vec<DepthRow>),
}

/// Runs a measurement. A signal cuts it short: its queues are emptied until it ends, so that its worker settles what
/// it holds, and nothing is left in the store. A second signal ends it at once.
async fn unless_interrupted(
    mut measured: Pin<Box<impl Future<Output = Result<Rows, BenchError>>>>,
    client: &Client,
    floors: &[Box<dyn Baseline>],
) -> anyhow::Result<Rows> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        rows = &mut measured => return Ok(rows?),
        () = signals.next() => {}
    }
    let cut_short = async {
        let empty = async {
            loop {
                bench::clear(client, floors).await?;
                tokio::time::sleep(CLEAR_INTERVAL).await;
            }
        };
        let ended: Result<(), BenchError> = tokio::select! {
            // It fails for want of its jobs.
            _ = &mut measured => Ok(()),
            failed = empty => failed,
            () = tokio::time::sleep(CUT_SHORT_TIMEOUT) => Ok(()),
        };
        ended?;
        bench::clear(client, floors).await
    };
    tokio::select! {
        cleared = cut_short => cleared?,
        () = signals.next() => {}
    }
    Err(Complaint::failed("interrupted").into())
}

fn show_jobs(rows: &[Row], context: &Context) -> anyhow::Result<ExitCode> {
    if context.out.is_json() {
        rows.iter().try_for_each(|row| context.out.json(row))?;
    } else {
        context.out.table(&table(rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_chains(rows: &[ChainRow], context: &Context) -> anyhow::Result<ExitCode> {
    if context.out.is_json() {
        rows.iter().try_for_each(|row| context.out.json(row))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["CHAINS", "AT ONCE", "RAW/S", "TIDEMILL/S", "RATIO", "RAW IS"]);
    for row in rows {
        table.row(vec![
            Cell::text(row.work),
            Cell::text(row.concurrency.to_string()),
            Cell::text(whole(row.raw_per_s)),
            Cell::text(whole(row.per_s)),
            Cell::text(format!("{:.2}", row.ratio)),
            Cell::text(row.raw),
        ]);
    }
    context.out.table(&table)?;
    Ok(ExitCode::SUCCESS)
}

fn show_workflows(rows: &[RunRow], context: &Context) -> anyhow::Result<ExitCode> {
    if context.out.is_json() {
        rows.iter().try_for_each(|row| context.out.json(row))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["RUNS AT ONCE", "RAW/S", "RUNS/S", "RATIO", "TRIPS/RUN", "P50 ms"]);
    for row in rows {
        table.row(vec![
            Cell::text(row.at_once.to_string()),
            Cell::text(whole(row.raw_per_s)),
            Cell::text(whole(row.per_s)),
            Cell::text(format!("{:.2}", row.ratio)),
            Cell::text(format!("{:.1}", row.trips_per_run)),
            Cell::text(row.p50_us.map_or_else(String::new, |us| format!("{:.2}", us / 1_000.0))),
        ]);
    }
    context.out.table(&table)?;
    Ok(ExitCode::SUCCESS)
}

fn show_depths(rows: &[DepthRow], context: &Context) -> anyhow::Result<ExitCode> {
    if context.out.is_json() {
        rows.iter().try_for_each(|row| context.out.json(row))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["WAITING", "CLAIM 100 ms", "", "AND SETTLE ms", "", "RAW ms", ""]);
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
    context.out.table(&table)?;
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
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
            Cell::text(whole(row.raw_per_s)),
            Cell::text(whole(row.per_s)),
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
    reason = "a rate is positive and not astronomical"
)]
fn whole(rate: f64) -> String {
    thousands(rate.round() as u64)
}
