//! `tidemill queue`: looks at queues and acts on them.

use std::process::ExitCode;

use tidemill::store::QueueInfo;

use crate::context::Context;
use crate::output::{Cell, Colour, Table};

/// Look at queues: list, show, pause, resume, purge
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// List every queue and what is in it
    List,
}

pub(crate) async fn run(action: Action, context: &Context) -> anyhow::Result<ExitCode> {
    match action {
        Action::List => list(context).await,
    }
}

async fn list(context: &Context) -> anyhow::Result<ExitCode> {
    let mill = context.mill().await?;
    let queues = mill.store().queues().await?;
    if context.out.is_json() {
        queues.iter().try_for_each(|queue| context.out.json(queue))?;
    } else if queues.is_empty() {
        context.out.text("there are no queues yet")?;
    } else {
        context.out.table(&table(&queues))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(queues: &[QueueInfo]) -> Table {
    let mut table = Table::new(&["QUEUE", "DELIVERY", "READY", "SCHEDULED", "RUNNING", "DEAD", "STATE"]);
    for info in queues {
        table.row(vec![
            Cell::text(info.queue.name.as_str()),
            Cell::text(info.queue.delivery.to_string()),
            Cell::number(info.ready),
            Cell::number(info.scheduled),
            Cell::number(info.running),
            Cell::number(info.dead).colour_unless_zero(Colour::Red),
            if info.paused { Cell::text("paused").colour(Colour::Yellow) } else { Cell::text("open") },
        ]);
    }
    table
}
