//! `tidemill dev --demo`: all features of jobs in a few seconds.

mod counts;
mod jobs;
mod script;
mod summary;

use std::process::ExitCode;
use std::sync::Arc;

use tidemill::{Client, Worker, WorkerBuilder, secs};

use crate::connect::describe;
use crate::context::Context;
use crate::exec::ProcessGroups;
use crate::output::{Colour, printable};
use crate::serve::serve;
use crate::view::QueueView;

use counts::KindCounter;
use jobs::DemoState;
use script::DemoScript;

/// Runs the demo until it ends or a signal arrives.
pub(crate) async fn run(context: &Context) -> anyhow::Result<ExitCode> {
    let client = open(context).await?;
    let state = DemoState::default();
    let worker = worker(&client, state.clone());
    let (stats, mut counter) = (worker.stats(), KindCounter::new(worker.events()));
    let engine = worker.build()?;
    print_title(context);
    let view = QueueView::new(client.store().clone(), stats, &context.screen);
    let (script, emptied) = (DemoScript::new(&client, state), engine.wait_until_empty());
    let (mut played, handlers) = (Ok(()), Arc::<ProcessGroups>::default());
    let until = async {
        played = script.run().await;
        emptied.await;
    };
    tokio::select! {
        report = serve(engine, &handlers, &context.screen, until) => drop(report?),
        never = view.run() => match never {},
        never = counter.run() => match never {},
    }
    context.screen.clear();
    played?;
    counter.count_remaining();
    summary::print(&client, &counter, context).await?;
    Ok(ExitCode::SUCCESS)
}

/// The store of the demo: in memory, unless a flag names another. The environment or a file may
/// name production.
async fn open(context: &Context) -> anyhow::Result<Client> {
    if context.config.store.by_flag {
        return context.standalone_client().await;
    }
    Ok(tidemill::ClientBuilder::new("sqlite::memory:").source("demo").connect().await?)
}

fn worker(client: &Client, state: DemoState) -> WorkerBuilder {
    Worker::builder(client)
        .state(state)
        .handle(jobs::resize_image)
        .handle(jobs::render_video)
        .handle(jobs::send_email)
        .handle(jobs::send_reminder)
        .handle(jobs::call_api)
        .handle(jobs::import_report)
        .handle(jobs::ping)
        .queue(jobs::MEDIA_QUEUE, 8)
        .queue(jobs::MAIL_QUEUE, 8)
        .queue(jobs::API_QUEUE, 6)
        .queue(jobs::REPORTS_QUEUE, 2)
        .at_most_once(jobs::PINGS_QUEUE, 4)
        .shutdown_grace(secs(2))
}

fn print_title(context: &Context) {
    let store = if context.config.store.by_flag { &context.config.store.url } else { "sqlite::memory:" };
    let (style, store) = (context.screen.style(), printable(&describe(store)));
    let title = style.paint(Colour::Bold, "tidemill demo");
    let count = jobs::TOTAL_JOBS;
    context
        .screen
        .print_line(&format!("{title}: {count} jobs of {} kinds in 5 queues on {store}\n", jobs::KINDS));
}
