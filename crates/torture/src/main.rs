//! `torture`: runs the scenarios; `torture worker DUTY` and `torture post POST` are what they start.

#![allow(clippy::print_stdout, reason = "a command line talks on standard output")]

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tidemill_torture::duty::Duty;
use tidemill_torture::harbour::Post;
use tidemill_torture::{Kind, Stage, crew, scenario};

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["worker", duty] => serve(serde_json::from_str(duty)?).await,
        ["post", post] => serde_json::from_str::<Post>(post)?.serve().await,
        _ => torture(&Wish::read(&args)?).await,
    }
}

async fn serve(duty: Duty) -> Result<()> {
    let account = duty.serve(|| println!("{}", crew::READY)).await?;
    println!("{}", serde_json::to_string(&account)?);
    Ok(())
}

/// What there is, in the order in which it is played.
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

/// What is wanted.
struct Wish {
    seconds: u64,
    seed: u64,
    stores: Vec<Kind>,
    scenarios: Vec<Scenario>,
}

impl Wish {
    fn read(args: &[&str]) -> Result<Self> {
        let mut wish = Self {
            seconds: 60,
            seed: fastrand::u64(..),
            stores: Kind::ALL.to_vec(),
            scenarios: Scenario::ALL.to_vec(),
        };
        for pair in args.chunks(2) {
            match *pair {
                ["--seconds", value] => wish.seconds = value.parse().context("--seconds wants a number")?,
                ["--seed", value] => wish.seed = value.parse().context("--seed wants a number")?,
                ["--only", names] => wish.scenarios = named(names)?,
                ["--store", "all"] => wish.stores = Kind::ALL.to_vec(),
                ["--store", value] => wish.stores = vec![value.parse()?],
                _ => bail!(
                    "{:?} is not understood: [--seconds N] [--seed S] [--store NAME|all] [--only SCENARIO,…]",
                    pair[0]
                ),
            }
        }
        Ok(wish)
    }
}

async fn torture(wish: &Wish) -> Result<()> {
    let program = std::env::current_exe()?;
    println!("seed {} for {} s on each store", wish.seed, wish.seconds);
    for kind in &wish.stores {
        let begun = Instant::now();
        println!("{kind}");
        one(*kind, &program, wish).await.with_context(|| format!("{kind}, seed {}", wish.seed))?;
        println!("    {:.0} s", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// The scenarios of these names, in the order in which they are played.
fn named(names: &str) -> Result<Vec<Scenario>> {
    let names: Vec<_> = names.split(',').collect();
    let known = Scenario::ALL.map(Scenario::name);
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("{unknown:?} is no scenario: there are {}", known.join(", "));
    }
    Ok(Scenario::ALL.into_iter().filter(|scenario| names.contains(&scenario.name())).collect())
}

async fn one(kind: Kind, program: &Path, wish: &Wish) -> Result<()> {
    for scenario in &wish.scenarios {
        let stage = Stage::set(kind, program).await?;
        for line in play(*scenario, &stage, wish).await.with_context(|| scenario.name())? {
            println!("    {line}");
        }
    }
    Ok(())
}

/// Plays a scenario and says what came of it.
async fn play(scenario: Scenario, stage: &Stage, wish: &Wish) -> Result<Vec<String>> {
    let (seed, time) = (wish.seed, Duration::from_secs(wish.seconds));
    let times = |number: usize| usize::try_from(wish.seconds).unwrap_or(usize::MAX).saturating_mul(number);
    Ok(vec![match scenario {
        Scenario::Killed => {
            let took = scenario::killed::run(stage).await?;
            format!("killed with 100 jobs: all done {took:.2?} after the kill")
        }
        Scenario::Stopped => {
            let refused = scenario::stopped::run(stage).await?;
            format!("stopped for three leases with 100 jobs: {refused} late settlements refused")
        }
        Scenario::StoppedRun => {
            let refused = scenario::stopped_run::run(stage).await?;
            format!("stopped in the middle of a run's task: {refused} late commits refused")
        }
        Scenario::Outage => {
            return Ok(scenario::outage::run(stage).await?.iter().map(ToString::to_string).collect());
        }
        Scenario::Poison => {
            let starts = scenario::poison::run(stage, seed).await?;
            format!("50 poison jobs among 1,000: worker started {starts} times, the others all done")
        }
        Scenario::Chains => scenario::chains::run(stage, seed, time / 4).await?.to_string(),
        Scenario::Order => scenario::order::run(stage).await?.to_string(),
        // Browsers take their time to start.
        Scenario::Fleet => scenario::fleet::run(stage, seed, times(4)).await?.to_string(),
        Scenario::Shared => scenario::shared::run(stage, seed, times(4)).await?.to_string(),
        // About as many as are done in the time that the chains have.
        Scenario::Workflows => scenario::workflows::run(stage, seed, times(20)).await?.to_string(),
        Scenario::Random => format!("at random: {}", scenario::random::run(stage, seed, time).await?),
    }])
}
