//! `tidemill queue`: looks at queues and acts on them.

use std::io;
use std::process::ExitCode;

use serde::Serialize;
use tidemill::store::QueueInfo;
use tidemill::{Client, Queue};

use crate::browse::QueueArg;
use crate::confirm::confirm;
use crate::context::Context;
use crate::output::{Cell, Colour, Table, printable, thousands};

/// Look at queues: list, show, pause, resume, purge
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    /// List every queue and what is in it
    #[command(after_help = "Example:\n  tidemill queue list --json")]
    List,
    /// Show one queue
    #[command(after_help = "Example:\n  tidemill queue show mail")]
    Show(QueueArg),
    /// Stop giving out a queue's jobs; what runs goes on
    #[command(after_help = "Example:\n  tidemill queue pause mail")]
    Pause(QueueArg),
    /// Give a queue's jobs out again
    #[command(after_help = "Example:\n  tidemill queue resume mail")]
    Resume(QueueArg),
    /// Delete the waiting jobs of a queue; running and dead ones stay
    #[command(after_help = "Example:\n  tidemill queue purge mail --yes")]
    Purge {
        #[command(flatten)]
        queue: QueueArg,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill queue list
  tidemill queue pause mail";

pub(crate) async fn run(action: Action, context: &Context) -> anyhow::Result<ExitCode> {
    let client = context.client().await?;
    match action {
        Action::List => list(&client.store().list_queues().await?, context)?,
        Action::Show(queue) => show(&queue.find(&**client.store()).await?, context)?,
        Action::Pause(queue) => {
            let queue = queue.find_or_new(&**client.store()).await?;
            client.pause(&queue).await?;
            told(&queue, "paused", None, context)?;
        }
        Action::Resume(queue) => {
            let queue = queue.find(&**client.store()).await?.queue;
            client.resume(&queue).await?;
            told(&queue, "resumed", None, context)?;
        }
        Action::Purge { queue, yes } => {
            purge(&queue.find(&**client.store()).await?, yes, &client, context).await?
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(queues: &[QueueInfo], context: &Context) -> io::Result<()> {
    if context.out.is_json() {
        return queues.iter().try_for_each(|queue| context.out.json(queue));
    }
    if queues.is_empty() {
        return context.out.text("there are no queues yet");
    }
    let mut table =
        Table::new(&["QUEUE", "DELIVERY", "READY", "SCHEDULED", "BLOCKED", "RUNNING", "DEAD", "STATE"]);
    for info in queues {
        table.row(vec![
            Cell::text(info.queue.name.as_str()),
            Cell::text(info.queue.guarantee.to_string()),
            Cell::number(info.ready),
            Cell::number(info.scheduled),
            Cell::number(info.blocked),
            Cell::number(info.running),
            dead(info),
            openness(info),
        ]);
    }
    context.out.table(&table)?;
    queues.iter().try_for_each(|info| problems(info, context))
}

/// What is wrong with a queue, below its counts.
fn problems(info: &QueueInfo, context: &Context) -> io::Result<()> {
    let tell = |problem: &String| context.out.text(format!("queue {}: {}", info.queue, printable(problem)));
    info.problems.iter().try_for_each(tell)
}

fn show(info: &QueueInfo, context: &Context) -> io::Result<()> {
    if context.out.is_json() {
        return context.out.json(info);
    }
    let mut facts = Table::facts();
    facts.fact("queue", info.queue.name.as_str());
    facts.fact("delivery", info.queue.guarantee.to_string());
    facts.fact("state", openness(info));
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
    context.out.table(&facts)?;
    problems(info, context)
}

fn dead(info: &QueueInfo) -> Cell {
    Cell::number(info.dead).colour_unless_zero(Colour::Red)
}

fn openness(info: &QueueInfo) -> Cell {
    if info.paused { Cell::text("paused").colour(Colour::Yellow) } else { Cell::text("open") }
}

/// What was done to a queue, for programs.
#[derive(Debug, Serialize)]
struct Done<'a> {
    #[serde(flatten)]
    queue: &'a Queue,
    result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<u64>,
}

fn told(queue: &Queue, result: &str, jobs: Option<u64>, context: &Context) -> io::Result<()> {
    let text = match jobs {
        Some(jobs) => format!("queue {queue} {result}: {} jobs deleted", thousands(jobs)),
        None => format!("queue {queue} {result}"),
    };
    context.out.result(text, &Done { queue, result, jobs })
}

async fn purge(info: &QueueInfo, yes: bool, client: &Client, context: &Context) -> anyhow::Result<()> {
    if !yes {
        let jobs = thousands(info.ready + info.scheduled);
        let question = format!("delete {jobs} waiting jobs of queue {} for good?", info.queue);
        confirm(&question, "purging deletes jobs for good: say --yes if that is meant")?;
    }
    let purged = client.purge(&info.queue).await?;
    if purged.after_unknown {
        context.screen.say("the answer to a first try was lost: it may have deleted more jobs");
    }
    Ok(told(&info.queue, "purged", Some(purged.value), context)?)
}
