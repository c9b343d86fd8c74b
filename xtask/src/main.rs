//! The commands of the project. `cargo xtask` lists them.

#![allow(clippy::print_stdout, reason = "a command line prints to standard output")]

mod build_time;
mod ci;
mod dependencies;
mod features;
mod libtest;
mod license;
mod metadata;
mod msrv;
mod readme;
mod servers;
mod shell;
mod suite;
mod summary;
mod test;
mod tidy;
mod torture;
mod versions;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask test [--fast | --versions]
                             runs every test; installs servers, browsers and Node if they are missing.
                             --fast: only the tests that need no server
                             --versions: only the conformance suite, on Redis 6.2, the newest PostgreSQL and the system's servers
cargo xtask build-time       prints the CPU seconds of a release build from an empty target directory
cargo xtask ci               format, layering, licences, lints, each feature alone, the oldest compiler,
                             documentation, then `test`, then `build-time`
cargo xtask features         checks the crates without features and with each single feature
cargo xtask msrv             checks the crates with the oldest supported compiler; installs it with rustup
cargo xtask licenses         checks licences and sources of all dependencies by deny.toml
cargo xtask tidy             checks the layering and the project's own rules
cargo xtask tidy --names     lists names that are declared too often or retired
cargo xtask torture [--seconds N] [--seed S] [--store sqlite|redis|cluster|postgres|all]
                             kills, pauses and restarts real processes at random, then checks that nothing is lost";

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<()> {
    match args {
        ["test"] => test::run(test::TestScope::Everything),
        ["test", "--fast"] => test::run(test::TestScope::WithoutServers),
        ["test", "--versions"] => versions::run(),
        ["ci"] => ci::run(),
        ["build-time"] => build_time::run(),
        ["features"] => features::check(&metadata::load()?),
        ["msrv"] => msrv::check(&metadata::load()?),
        ["licenses"] => dependencies::check(&metadata::load()?),
        ["tidy"] => tidy::run(),
        ["tidy", "--names"] => tidy::run_names(),
        ["torture", rest @ ..] => torture::run(rest),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => bail!("`{}` is not a command of xtask\n\n{HELP}", args.join(" ")),
    }
}
