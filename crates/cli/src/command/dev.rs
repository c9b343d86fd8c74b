//! `tidemill dev`: a store, a worker and a live view in one process.

use std::process::ExitCode;
use std::sync::Arc;

use tidemill::settle::Outcome;
use tidemill::{Envelope, JobContext};

use crate::connect::describe;
use crate::context::Context;
use crate::demo;
use crate::exec::{self, ProcessGroups};
use crate::output::{Colour, printable};
use crate::serve::serve;
use crate::view::{EventLog, QueueView};

use super::worker::{WorkerFlags, core_count, print_summary};

/// Run a store, a worker and a live view in one process; --demo runs example jobs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DevArgs {
    /// Run a few hundred jobs of several kinds, with failures, retries and a dead letter, in an
    /// in-memory store
    #[arg(long, conflicts_with_all = ["queues", "at_most_once", "handlers"])]
    demo: bool,

    #[command(flatten)]
    worker_flags: WorkerFlags,
}

const EXAMPLES: &str = "\
Without --exec every job succeeds at once, and its output is its payload.

Examples:
  tidemill dev --demo
  tidemill dev --queue mail=5 --exec 'send_email=./mail.py'
  tidemill enqueue send_email --queue mail --wait      (in another terminal)";

/// Concurrency of the echo handler. It does no work, and the store settles its jobs in batches.
const ECHO_CONCURRENCY: usize = 100;

impl DevArgs {
    pub(crate) fn is_demo(&self) -> bool {
        self.demo
    }
}

pub(crate) async fn run(args: DevArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if args.demo {
        return demo::run(context).await;
    }
    let client = context.standalone_client().await?;
    let groups = Arc::<ProcessGroups>::default();
    let worker = if args.worker_flags.handlers.is_empty() {
        args.worker_flags.worker(&client, ECHO_CONCURRENCY).handle_any(echo)
    } else {
        exec::add_handlers(
            args.worker_flags.worker(&client, core_count()),
            args.worker_flags.handlers.clone(),
            &groups,
        )
    };
    let (stats, mut log) = (worker.stats(), EventLog::new(worker.events(), context));
    let engine = worker.build()?;
    print_welcome(&args.worker_flags, context);
    let view = QueueView::new(client.store().clone(), stats, &context.screen);
    let started = std::time::Instant::now();
    let report = tokio::select! {
        report = serve(engine, &groups, &context.screen, std::future::pending()) => report?,
        broken = log.run(), if context.config.verbose > 0 => match broken? {},
        never = view.run() => match never {},
    };
    context.screen.clear();
    print_summary(&report, started.elapsed(), context)?;
    Ok(ExitCode::SUCCESS)
}

/// The default handler: returns the payload as the output.
async fn echo(envelope: Envelope, _: JobContext) -> Outcome {
    Outcome::Done(bytes::Bytes::copy_from_slice(envelope.payload()))
}

fn print_welcome(worker_flags: &WorkerFlags, context: &Context) {
    let (screen, name) = (&context.screen, program_name());
    let store = printable(&describe(&context.config.store.url));
    let flag =
        if context.config.store.by_flag { format!("--store {} ", shown_url(context)) } else { String::new() };
    let (queue, flags) = match worker_flags.first_queue() {
        Some((queue, true)) => (queue, format!(" --queue {queue} --at-most-once")),
        Some((queue, false)) if queue != "default" => (queue, format!(" --queue {queue}")),
        _ => ("default", String::new()),
    };
    let title = screen.style().paint(Colour::Bold, "tidemill dev");
    screen.print_line(&format!("{title}: queue {queue} on {store} (Ctrl-C ends it)\n"));
    screen.print_line("From another terminal, in this directory:");
    let kind = worker_flags.handlers.first().map_or("greet", |handler| handler.kind());
    screen
        .print_line(&format!("  {name} {flag}enqueue {kind}{flags} --payload '{{\"name\":\"Ada\"}}' --wait"));
    screen.print_line(&format!("  {name} {flag}queue list\n"));
}

/// The store's URL, without anything that may contain a password.
fn shown_url(context: &Context) -> String {
    let url = &context.config.store.url;
    if url.starts_with("sqlite:") { printable(url) } else { "…".to_owned() }
}

/// The name under which this program was called, so that the printed commands can be copied.
pub(crate) fn program_name() -> String {
    std::env::args().next().map_or_else(|| "tidemill".to_owned(), |name| printable(&name))
}
