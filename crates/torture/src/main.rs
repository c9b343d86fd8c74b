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

/// What is wanted.
struct Wish {
    seconds: u64,
    seed: u64,
    stores: Vec<Kind>,
    /// Nothing but the fleet, which takes long by itself.
    only_fleet: bool,
}

impl Wish {
    fn read(args: &[&str]) -> Result<Self> {
        let mut wish =
            Self { seconds: 60, seed: fastrand::u64(..), stores: Kind::ALL.to_vec(), only_fleet: false };
        for pair in args.chunks(2) {
            match *pair {
                ["--seconds", value] => wish.seconds = value.parse().context("--seconds wants a number")?,
                ["--seed", value] => wish.seed = value.parse().context("--seed wants a number")?,
                ["--only", "fleet"] => wish.only_fleet = true,
                ["--store", "all"] => wish.stores = Kind::ALL.to_vec(),
                ["--store", value] => wish.stores = vec![value.parse()?],
                _ => bail!(
                    "{:?} is not understood: [--seconds N] [--seed S] [--store NAME|all] [--only fleet]",
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

async fn one(kind: Kind, program: &Path, wish: &Wish) -> Result<()> {
    if wish.only_fleet {
        return fleet(kind, program, wish).await;
    }
    let stage = || Stage::set(kind, program);
    let took = scenario::killed::run(&stage().await?).await?;
    println!("    killed with 100 jobs: all done {took:.2?} after the kill");
    let refused = scenario::stopped::run(&stage().await?).await?;
    println!("    stopped for three leases with 100 jobs: {refused} late settlements refused");
    let refused = scenario::stopped_run::run(&stage().await?).await?;
    println!("    stopped in the middle of a run's task: {refused} late commits refused");
    for recovery in scenario::outage::run(&stage().await?).await? {
        let scenario::outage::Recovery { fault, after, commands_per_s } = recovery;
        println!("    {fault}: progress after {after:.2?}, {commands_per_s:.0} commands/s meanwhile");
    }
    let starts = scenario::poison::run(&stage().await?, wish.seed).await?;
    println!("    50 poison jobs among 1,000: worker started {starts} times, the others all done");
    let chains =
        scenario::chains::run(&stage().await?, wish.seed, Duration::from_secs(wish.seconds) / 4).await?;
    println!("    {chains}");
    println!("    {}", scenario::order::run(&stage().await?).await?);
    fleet(kind, program, wish).await?;
    // About as many as are done in the time that the chains have.
    let programs = usize::try_from(wish.seconds).unwrap_or(usize::MAX).saturating_mul(20);
    let workflows = scenario::workflows::run(&stage().await?, wish.seed, programs).await?;
    println!("    {workflows}");
    let reckoning =
        scenario::random::run(&stage().await?, wish.seed, Duration::from_secs(wish.seconds)).await?;
    println!("    at random: {reckoning}");
    Ok(())
}

/// Four kills for every second that is asked for; browsers take their time to start.
async fn fleet(kind: Kind, program: &Path, wish: &Wish) -> Result<()> {
    let kills = usize::try_from(wish.seconds).unwrap_or(usize::MAX).saturating_mul(4);
    println!("    {}", scenario::fleet::run(&Stage::set(kind, program).await?, wish.seed, kills).await?);
    Ok(())
}
