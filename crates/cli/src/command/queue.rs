//! `tidemill queue`: lists, shows, pauses, resumes and purges queues.

use std::io;
use std::process::ExitCode;

use serde::Serialize;
use tidemill::store::QueueInfo;
use tidemill::{Client, Queue};

use crate::confirm::confirm;
use crate::context::Context;
use crate::output::{Cell, Colour, TextTable, printable, thousands};
use crate::pages::{QueueArg, all_queues, queue_handle};

/// Queues: list, show, pause, resume, purge
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum QueueCommand {
    /// List all queues with their job counts
    #[command(after_help = "Example:\n  tidemill queue list --json")]
    List,
    /// Show one queue
    #[command(after_help = "Example:\n  tidemill queue show mail")]
    Show(QueueArg),
    /// Pause a queue: no job of it starts; running jobs continue
    #[command(after_help = "Example:\n  tidemill queue pause mail")]
    Pause(QueueArg),
    /// Resume a paused queue
    #[command(after_help = "Example:\n  tidemill queue resume mail")]
    Resume(QueueArg),
    /// Delete the waiting jobs of a queue; running and dead jobs stay
    #[command(after_help = "Example:\n  tidemill queue purge mail --yes")]
    Purge {
        #[command(flatten)]
        queue: QueueArg,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill queue list
  tidemill queue pause mail";

pub(crate) async fn run(command: QueueCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let client = context.client().await?;
    match command {
        QueueCommand::List => list(&all_queues(&client).await?, context)?,
        QueueCommand::Show(queue) => show(&queue.find(&client).await?, context)?,
        QueueCommand::Pause(queue) => {
            let queue = queue.find_or_new(&client).await?;
            queue_handle(&client, &queue).pause().await?;
            print_result(&queue, "paused", None, context)?;
        }
        QueueCommand::Resume(queue) => {
            let queue = queue.find(&client).await?.queue;
            queue_handle(&client, &queue).resume().await?;
            print_result(&queue, "resumed", None, context)?;
        }
        QueueCommand::Purge { queue, yes } => {
            purge(&queue.find(&client).await?, yes, &client, context).await?
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(queues: &[QueueInfo], context: &Context) -> io::Result<()> {
    if context.printer.is_json() {
        return queues.iter().try_for_each(|queue| context.printer.json(queue));
    }
    if queues.is_empty() {
        return context.printer.text("there are no queues yet");
    }
    let mut table =
        TextTable::new(&["QUEUE", "DELIVERY", "READY", "SCHEDULED", "BLOCKED", "RUNNING", "DEAD", "STATE"]);
    for info in queues {
        table.row(vec![
            Cell::text(info.queue.name.as_str()),
            Cell::text(info.queue.guarantee.to_string()),
            Cell::number(info.ready),
            Cell::number(info.scheduled),
            Cell::number(info.blocked),
            Cell::number(info.running),
            dead_cell(info),
            state_cell(info),
        ]);
    }
    context.printer.table(&table)?;
    queues.iter().try_for_each(|info| print_problems(info, context))
}

/// Prints the problems of a queue below its counts.
fn print_problems(info: &QueueInfo, context: &Context) -> io::Result<()> {
    let print =
        |problem: &String| context.printer.text(format!("queue {}: {}", info.queue, printable(problem)));
    info.problems.iter().try_for_each(print)
}

fn show(info: &QueueInfo, context: &Context) -> io::Result<()> {
    if context.printer.is_json() {
        return context.printer.json(info);
    }
    let mut facts = TextTable::facts();
    facts.fact("queue", info.queue.name.as_str());
    facts.fact("delivery", info.queue.guarantee.to_string());
    facts.fact("state", state_cell(info));
    let counts = [
        ("ready", info.ready),
        ("scheduled", info.scheduled),
        ("blocked", info.blocked),
        ("running", info.running),
    ];
    for (name, count) in counts {
        facts.fact(name, thousands(count));
    }
    facts.fact("dead", Cell::text(thousands(info.dead)).colour_unless_zero(Colour::Red));
    context.printer.table(&facts)?;
    print_problems(info, context)
}

fn dead_cell(info: &QueueInfo) -> Cell {
    Cell::number(info.dead).colour_unless_zero(Colour::Red)
}

fn state_cell(info: &QueueInfo) -> Cell {
    if info.paused { Cell::text("paused").colour(Colour::Yellow) } else { Cell::text("open") }
}

/// The result of a command on a queue, as JSON.
#[derive(Debug, Serialize)]
struct QueueResult<'a> {
    #[serde(flatten)]
    queue: &'a Queue,
    result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<u64>,
}

fn print_result(queue: &Queue, result: &str, jobs: Option<u64>, context: &Context) -> io::Result<()> {
    let text = match jobs {
        Some(jobs) => format!("queue {queue} {result}: {} jobs deleted", thousands(jobs)),
        None => format!("queue {queue} {result}"),
    };
    context.printer.result(text, &QueueResult { queue, result, jobs })
}

async fn purge(info: &QueueInfo, yes: bool, client: &Client, context: &Context) -> anyhow::Result<()> {
    if !yes {
        let jobs = thousands(info.ready + info.scheduled);
        let question = format!("delete {jobs} waiting jobs of queue {} for good?", info.queue);
        confirm(&question, "purging deletes jobs for good: say --yes if that is meant")?;
    }
    let purged = queue_handle(client, &info.queue).purge().await?;
    if purged.maybe_more {
        context.screen.print_line("the answer to a first try was lost: it may have deleted more jobs");
    }
    Ok(print_result(&info.queue, "purged", Some(purged.jobs), context)?)
}
