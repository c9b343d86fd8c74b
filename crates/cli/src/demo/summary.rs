//! The summary of the demo: a table, the dead letter, and commands to try.

use tidemill::Client;

use super::counts::{KindCounter, KindCounts};
use crate::command::dev::program_name;
use crate::context::Context;
use crate::output::job::{JobView, facts};
use crate::output::{Cell, Colour, TextTable};

/// The kinds and what happened to their jobs.
const STORY: [(&str, &str); 7] = [
    ("resize_image", "just work"),
    ("send_email", "refused twice, then accepted"),
    ("call_api", "every third fails once"),
    ("import_report", "one cannot be read: a dead letter"),
    ("send_reminder", "scheduled for four seconds later"),
    ("render_video", "cancelled while it ran"),
    ("ping", "at most once: never retried"),
];

/// Prints the summary.
pub(super) async fn print(client: &Client, counter: &KindCounter, context: &Context) -> anyhow::Result<()> {
    let counts =
        |kind: &str| counter.kinds.iter().find(|counts| counts.kind == kind).cloned().unwrap_or_default();
    let kinds: Vec<_> = STORY
        .into_iter()
        .map(|(kind, story)| (KindCounts { kind: kind.to_owned(), ..counts(kind) }, story))
        .collect();
    let died = match &counter.died {
        Some(job) => client.job_info(job).await?.map(|info| JobView::new(&info)),
        None => None,
    };
    if context.printer.is_json() {
        kinds.iter().try_for_each(|(counts, _)| context.printer.json(counts))?;
        return Ok(died.iter().try_for_each(|letter| context.printer.json(letter))?);
    }
    if !context.screen.is_live() {
        context.printer.text("")?;
    }
    context.printer.table(&table(&kinds))?;
    if let Some(letter) = &died {
        context
            .printer
            .text(format!("\n{}", context.printer.style().paint(Colour::Bold, "The dead letter")))?;
        context.printer.table(&facts(letter, client.now()))?;
    }
    Ok(next(died.as_ref(), context)?)
}

fn table(kinds: &[(KindCounts, &str)]) -> TextTable {
    let mut table = TextTable::new(&["KIND", "DONE", "RETRIED", "DEAD", "CANCELLED", "WHAT HAPPENED"]);
    for (counts, story) in kinds {
        table.row(vec![
            Cell::text(counts.kind.as_str()),
            Cell::number(counts.done).colour_unless_zero(Colour::Green),
            Cell::number(counts.retried).colour_unless_zero(Colour::Yellow),
            Cell::number(counts.dead).colour_unless_zero(Colour::Red),
            Cell::number(counts.cancelled),
            Cell::text(*story),
        ]);
    }
    table
}

/// Prints commands that can be copied.
fn next(died: Option<&JobView>, context: &Context) -> std::io::Result<()> {
    let (name, store) = (program_name(), &context.config.store);
    let mut commands = Vec::new();
    if let (true, true, Some(letter)) = (store.by_flag, store.url.starts_with("sqlite:"), died) {
        let flag = format!("--store {}", store.url);
        commands.push((format!("{name} {flag} dlq list"), "the dead letter is still there"));
        commands.push((format!("{name} {flag} dlq redrive {}", letter.job), "tries it again"));
    }
    commands.push((format!("{name} dev"), "a store in ./tidemill.db, a worker and a view like this"));
    commands.push((
        format!("{name} enqueue greet --payload '{{\"name\":\"Ada\"}}' --wait"),
        "in a second terminal",
    ));
    commands.push((format!("{name} worker --exec 'greet=cat'"), "any program is a handler"));
    if !store.by_flag {
        commands.push((
            format!("{name} dev --demo --store sqlite:demo.db"),
            "this again, in a file you can look into",
        ));
    }
    context.printer.text(format!("\n{}", context.printer.style().paint(Colour::Bold, "What next")))?;
    for (command, meaning) in commands {
        context
            .printer
            .text(format!("  {command}\n      {}", context.printer.style().paint(Colour::Dim, meaning)))?;
    }
    Ok(())
}
