//! `tidemill dev --demo`: everything Tidemill does with jobs, in a few seconds.

mod jobs;
mod play;
mod summary;
mod tally;

use std::process::ExitCode;
use std::sync::Arc;

use tidemill::{Client, Worker, WorkerBuilder, secs};

use crate::connect::describe;
use crate::context::Context;
use crate::exec::Groups;
use crate::output::{Colour, printable};
use crate::serve::serve;
use crate::view::QueueView;

use jobs::Studio;
use play::Play;
use tally::Tally;

/// Runs the demo to its end, or to a signal.
pub(crate) async fn run(context: &Context) -> anyhow::Result<ExitCode> {
    let client = open(context).await?;
    let studio = Studio::default();
    let worker = worker(&client, studio.clone());
    let (stats, mut tally) = (worker.stats(), Tally::of(worker.events()));
    let engine = worker.build()?;
    greet(context);
    let view = QueueView::new(client.store().clone(), stats, &context.screen);
    let (play, emptied) = (Play::new(&client, studio), engine.wait_until_empty());
    let (mut played, programs) = (Ok(()), Arc::<Groups>::default());
    let until = async {
        played = play.run().await;
        emptied.await;
    };
    tokio::select! {
        report = serve(engine, &programs, &context.screen, until) => drop(report?),
        never = view.run() => match never {},
        never = tally.run() => match never {},
    }
    context.screen.clear();
    played?;
    tally.rest();
    summary::tell(&client, &tally, context).await?;
    Ok(ExitCode::SUCCESS)
}

/// The store of the demo: in memory, unless this very call names another. What the environment or a file
/// names may well be production.
async fn open(context: &Context) -> anyhow::Result<Client> {
    if context.settings.store.by_flag {
        return context.own_mill().await;
    }
    Ok(tidemill::connector("sqlite::memory:")?.source("demo").connect().await?)
}

fn worker(client: &Client, studio: Studio) -> WorkerBuilder {
    Worker::builder(client)
        .state(studio)
        .handle(jobs::resize_image)
        .handle(jobs::render_video)
        .handle(jobs::send_email)
        .handle(jobs::send_reminder)
        .handle(jobs::call_api)
        .handle(jobs::import_report)
        .handle(jobs::ping)
        .queue(jobs::MEDIA, 8)
        .queue(jobs::MAIL, 8)
        .queue(jobs::API, 6)
        .queue(jobs::REPORTS, 2)
        .at_most_once(jobs::PINGS, 4)
        .shutdown_grace(secs(2))
}

fn greet(context: &Context) {
    let store = if context.settings.store.by_flag { &context.settings.store.url } else { "sqlite::memory:" };
    let (style, store) = (context.screen.style(), printable(&describe(store)));
    let title = style.paint(Colour::Bold, "tidemill demo");
    let count = jobs::TOTAL;
    context.screen.say(&format!("{title}: {count} jobs of {} kinds in 5 queues on {store}\n", jobs::KINDS));
}
