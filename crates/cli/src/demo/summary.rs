//! What the demo has shown: a table, the dead letter, and what to try next.

use tidemill::Client;

use super::tally::{Line, Tally};
use crate::command::dev::program_name;
use crate::context::Context;
use crate::output::job::{JobView, facts};
use crate::output::{Cell, Colour, Table};

/// The kinds in the order of the story, and what there was to see.
const STORY: [(&str, &str); 7] = [
    ("resize_image", "just work"),
    ("send_email", "refused twice, then accepted"),
    ("call_api", "every third fails once"),
    ("import_report", "one cannot be read: a dead letter"),
    ("send_reminder", "scheduled for four seconds later"),
    ("render_video", "cancelled while it ran"),
    ("ping", "at most once: never retried"),
];

/// Tells it.
pub(super) async fn tell(client: &Client, tally: &Tally, context: &Context) -> anyhow::Result<()> {
    let line = |kind: &str| tally.lines.iter().find(|line| line.kind == kind).cloned().unwrap_or_default();
    let lines: Vec<_> = STORY
        .into_iter()
        .map(|(kind, story)| (Line { kind: kind.to_owned(), ..line(kind) }, story))
        .collect();
    let died = match &tally.died {
        Some(job) => client.store().get_job(job).await?.map(|info| JobView::of(&info)),
        None => None,
    };
    if context.out.is_json() {
        lines.iter().try_for_each(|(line, _)| context.out.json(line))?;
        return Ok(died.iter().try_for_each(|letter| context.out.json(letter))?);
    }
    if !context.screen.is_live() {
        context.out.text("")?;
    }
    context.out.table(&table(&lines))?;
    if let Some(letter) = &died {
        context.out.text(format!("\n{}", context.out.style().paint(Colour::Bold, "The dead letter")))?;
        context.out.table(&facts(letter, client.store().clock().now()))?;
    }
    Ok(next(died.as_ref(), context)?)
}

fn table(lines: &[(Line, &str)]) -> Table {
    let mut table = Table::new(&["KIND", "DONE", "RETRIED", "DEAD", "CANCELLED", "WHAT HAPPENED"]);
    for (line, story) in lines {
        table.row(vec![
            Cell::text(line.kind.as_str()),
            Cell::number(line.done).colour_unless_zero(Colour::Green),
            Cell::number(line.retried).colour_unless_zero(Colour::Yellow),
            Cell::number(line.dead).colour_unless_zero(Colour::Red),
            Cell::number(line.cancelled),
            Cell::text(*story),
        ]);
    }
    table
}

/// Commands that work as they stand.
fn next(died: Option<&JobView>, context: &Context) -> std::io::Result<()> {
    let (name, store) = (program_name(), &context.settings.store);
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
    context.out.text(format!("\n{}", context.out.style().paint(Colour::Bold, "What next")))?;
    for (command, meaning) in commands {
        context
            .out
            .text(format!("  {command}\n      {}", context.out.style().paint(Colour::Dim, meaning)))?;
    }
    Ok(())
}
