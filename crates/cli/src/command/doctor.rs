//! `tidemill doctor`: checks the store's server, settings and data.

use std::process::ExitCode;

use tidemill::store::{Checkup, Durability, Severity};

use crate::connect::describe;
use crate::context::Context;
use crate::output::{Colour, Style, TextTable, printable};

/// Check the store: version, durability, settings, damaged data
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tidemill doctor --store redis://localhost\n\nExit code 1 if a check fails."
)]
pub(crate) struct DoctorArgs {
    /// Repair damaged data without losing any: damaged Redis keys are renamed
    #[arg(long)]
    fix: bool,
}

pub(crate) async fn run(args: DoctorArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let client = context.client().await?;
    let fixed = if args.fix { client.fix().await? } else { Vec::new() };
    let mut checkup = client.checkup().await?;
    checkup.findings.extend(fixed);
    if context.printer.is_json() {
        context.printer.json(&checkup)?;
    } else {
        print_checkup(&checkup, context)?;
    }
    let bad = checkup.findings.iter().any(|finding| finding.severity == Severity::Bad);
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print_checkup(checkup: &Checkup, context: &Context) -> std::io::Result<()> {
    let mut facts = TextTable::facts();
    facts.fact("store", printable(&describe(&context.config.store.url)));
    if let Some(wake) = &context.config.wake {
        facts.fact("wake-ups", printable(&describe(&wake.0)));
    }
    facts.fact("server", printable(&checkup.server));
    facts.fact(
        "durability",
        format!("{}: an acknowledged job {}", checkup.durability, meaning(checkup.durability)),
    );
    context.printer.table(&facts)?;
    context.printer.text("")?;
    for finding in &checkup.findings {
        let mark = mark(finding.severity, context.printer.style());
        context.printer.text(format!("{mark} {:<18} {}", finding.subject, printable(&finding.message)))?;
    }
    Ok(())
}

fn meaning(durability: Durability) -> &'static str {
    match durability {
        Durability::Volatile => "is gone when the store's process ends",
        Durability::Process => "survives the store's process, perhaps not the machine",
        Durability::Fsync => "is on disk",
        Durability::Replicated => "is on another machine too",
    }
}

fn mark(severity: Severity, style: &Style) -> String {
    let (unicode, ascii, colour) = match severity {
        Severity::Good => ("✓", "ok  ", Colour::Green),
        Severity::Warning => ("!", "!   ", Colour::Yellow),
        Severity::Bad => ("✗", "BAD ", Colour::Red),
    };
    style.paint(colour, style.symbol(unicode, ascii))
}
