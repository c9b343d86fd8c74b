//! `torture`: runs the scenarios. They start `torture worker SPEC` and `torture fleet SPEC`.

#![allow(clippy::print_stdout, reason = "a command line prints to standard output")]

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tidemill_torture::gateway_process::FleetProcessSpec;
use tidemill_torture::worker_main::WorkerSpec;
use tidemill_torture::{Environment, StoreKind, scenario, worker_process};

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["worker", spec] => run_worker(serde_json::from_str(spec)?).await,
        ["fleet", spec] => serde_json::from_str::<FleetProcessSpec>(spec)?.run().await,
        _ => torture(&TortureOptions::parse(&args)?).await,
    }
}

async fn run_worker(spec: WorkerSpec) -> Result<()> {
    let report = spec.run(|| println!("{}", worker_process::READY)).await?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// The scenarios, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scenario {
    Killed,
    Stopped,
    StoppedRun,
    Outage,
    Poison,
    Chains,
    Order,
    Fleet,
    Shared,
    Workflows,
    Random,
}

impl Scenario {
    const ALL: [Self; 11] = [
        Self::Killed,
        Self::Stopped,
        Self::StoppedRun,
        Self::Outage,
        Self::Poison,
        Self::Chains,
        Self::Order,
        Self::Fleet,
        Self::Shared,
        Self::Workflows,
        Self::Random,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::StoppedRun => "stopped_run",
            Self::Outage => "outage",
            Self::Poison => "poison",
            Self::Chains => "chains",
            Self::Order => "order",
            Self::Fleet => "fleet",
            Self::Shared => "shared",
            Self::Workflows => "workflows",
            Self::Random => "random",
        }
    }
}

/// The options of a run.
struct TortureOptions {
    seconds: u64,
    seed: u64,
    stores: Vec<StoreKind>,
    scenarios: Vec<Scenario>,
}

impl TortureOptions {
    fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Self {
            seconds: 60,
            seed: fastrand::u64(..),
            stores: StoreKind::ALL.to_vec(),
            scenarios: Scenario::ALL.to_vec(),
        };
        for pair in args.chunks(2) {
            match *pair {
                ["--seconds", value] => {
                    options.seconds = value.parse().context("--seconds needs a number")?
                }
                ["--seed", value] => options.seed = value.parse().context("--seed needs a number")?,
                ["--only", names] => options.scenarios = parse_scenarios(names)?,
                ["--store", "all"] => options.stores = StoreKind::ALL.to_vec(),
                ["--store", value] => options.stores = vec![value.parse()?],
                _ => bail!(
                    "{:?} is not an option: [--seconds N] [--seed S] [--store NAME|all] [--only SCENARIO,…]",
                    pair[0]
                ),
            }
        }
        Ok(options)
    }
}

async fn torture(options: &TortureOptions) -> Result<()> {
    let program = std::env::current_exe()?;
    println!("seed {} for {} s on each store", options.seed, options.seconds);
    for kind in &options.stores {
        let started = Instant::now();
        println!("{kind}");
        torture_store(*kind, &program, options)
            .await
            .with_context(|| format!("{kind}, seed {}", options.seed))?;
        println!("    {:.0} s", started.elapsed().as_secs_f64());
    }
    Ok(())
}

/// The scenarios with these names, in the order in which they run.
fn parse_scenarios(names: &str) -> Result<Vec<Scenario>> {
    let names: Vec<_> = names.split(',').collect();
    let known = Scenario::ALL.map(Scenario::name);
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("{unknown:?} is not a scenario: there are {}", known.join(", "));
    }
    Ok(Scenario::ALL.into_iter().filter(|scenario| names.contains(&scenario.name())).collect())
}

async fn torture_store(kind: StoreKind, program: &Path, options: &TortureOptions) -> Result<()> {
    for scenario in &options.scenarios {
        let environment = Environment::start(kind, program).await?;
        for line in run_scenario(*scenario, &environment, options).await.with_context(|| scenario.name())? {
            println!("    {line}");
        }
    }
    Ok(())
}

/// Runs a scenario and returns the lines of its report.
async fn run_scenario(
    scenario: Scenario,
    environment: &Environment,
    options: &TortureOptions,
) -> Result<Vec<String>> {
    let (seed, time) = (options.seed, Duration::from_secs(options.seconds));
    let scaled =
        |number: usize| usize::try_from(options.seconds).unwrap_or(usize::MAX).saturating_mul(number);
    Ok(vec![match scenario {
        Scenario::Killed => {
            let took = scenario::killed::run(environment).await?;
            format!("killed with 100 jobs: all done {took:.2?} after the kill")
        }
        Scenario::Stopped => {
            let refused = scenario::stopped::run(environment).await?;
            format!("stopped for three leases with 100 jobs: {refused} late settlements refused")
        }
        Scenario::StoppedRun => {
            let refused = scenario::stopped_run::run(environment).await?;
            format!("stopped in the middle of a run's task: {refused} late commits refused")
        }
        Scenario::Outage => {
            return Ok(scenario::outage::run(environment).await?.iter().map(ToString::to_string).collect());
        }
        Scenario::Poison => {
            let starts = scenario::poison::run(environment, seed).await?;
            format!("50 poison jobs among 1,000: worker started {starts} times, the others all done")
        }
        Scenario::Chains => scenario::chains::run(environment, seed, time / 4).await?.to_string(),
        Scenario::Order => scenario::order::run(environment).await?.to_string(),
        // Browsers are slow to start.
        Scenario::Fleet => scenario::fleet::run(environment, seed, scaled(4)).await?.to_string(),
        Scenario::Shared => scenario::shared::run(environment, seed, scaled(4)).await?.to_string(),
        // About as many as run in the time that the chains get.
        Scenario::Workflows => scenario::workflows::run(environment, seed, scaled(20)).await?.to_string(),
        Scenario::Random => format!("at random: {}", scenario::random::run(environment, seed, time).await?),
    }])
}
