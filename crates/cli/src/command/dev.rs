//! `tidemill dev`: a store, a worker and a live view in one process.

use std::process::ExitCode;
use std::sync::Arc;

use tidemill::settle::Outcome;
use tidemill::{Envelope, JobContext};

use crate::connect::describe;
use crate::context::Context;
use crate::demo;
use crate::exec::{self, Groups};
use crate::output::{Colour, printable};
use crate::serve::serve;
use crate::view::{EventLog, QueueView};

use super::worker::{Crew, cores, tell};

/// Everything in one process: a store, a worker and a live view; --demo shows it off
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Run a few hundred jobs of several kinds, with failures, retries and a dead letter, in a store in memory
    #[arg(long, conflicts_with_all = ["queues", "at_most_once", "programs"])]
    demo: bool,

    #[command(flatten)]
    crew: Crew,
}

const EXAMPLES: &str = "\
Without --exec every job is done at once, and its output is its payload.

Examples:
  tidemill dev --demo
  tidemill dev --queue mail=5 --exec 'send_email=./mail.py'
  tidemill enqueue send_email --queue mail --wait      (in another terminal)";

/// How many jobs are echoed at once: they cost nothing, and the store settles them together.
const ECHOES: usize = 100;

impl Args {
    pub(crate) fn is_demo(&self) -> bool {
        self.demo
    }
}

pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.demo {
        return demo::run(context).await;
    }
    let client = context.own_mill().await?;
    let groups = Arc::<Groups>::default();
    let worker = if args.crew.programs.is_empty() {
        args.crew.worker(&client, ECHOES).handle_any(echo)
    } else {
        exec::handlers(args.crew.worker(&client, cores()), args.crew.programs.clone(), &groups)
    };
    let (stats, mut log) = (worker.stats(), EventLog::new(worker.events(), context));
    let engine = worker.build()?;
    greet(&args.crew, context);
    let view = QueueView::new(client.store().clone(), stats, &context.screen);
    let begun = std::time::Instant::now();
    let report = tokio::select! {
        report = serve(engine, &groups, &context.screen, std::future::pending()) => report?,
        broken = log.run(), if context.settings.verbose > 0 => match broken? {},
        never = view.run() => match never {},
    };
    context.screen.clear();
    tell(&report, begun.elapsed(), context)?;
    Ok(ExitCode::SUCCESS)
}

/// The handler of someone who has none yet.
async fn echo(envelope: Envelope, _: JobContext) -> Outcome {
    Outcome::Done(bytes::Bytes::copy_from_slice(envelope.payload()))
}

fn greet(crew: &Crew, context: &Context) {
    let (screen, name) = (&context.screen, program_name());
    let store = printable(&describe(&context.settings.store.url));
    let flag =
        if context.settings.store.by_flag { format!("--store {} ", shown(context)) } else { String::new() };
    let (queue, flags) = match crew.first_queue() {
        Some((queue, true)) => (queue, format!(" --queue {queue} --at-most-once")),
        Some((queue, false)) if queue != "default" => (queue, format!(" --queue {queue}")),
        _ => ("default", String::new()),
    };
    let title = screen.style().paint(Colour::Bold, "tidemill dev");
    screen.say(&format!("{title}: queue {queue} on {store} (Ctrl-C ends it)\n"));
    screen.say("From another terminal, in this directory:");
    let kind = crew.programs.first().map_or("greet", |program| program.kind());
    screen.say(&format!("  {name} {flag}enqueue {kind}{flags} --payload '{{\"name\":\"Ada\"}}' --wait"));
    screen.say(&format!("  {name} {flag}queue list\n"));
}

/// The store's URL, as far as it may be shown.
fn shown(context: &Context) -> String {
    let url = &context.settings.store.url;
    if url.starts_with("sqlite:") { printable(url) } else { "…".to_owned() }
}

/// How this program was called, so that what it says can be typed.
pub(crate) fn program_name() -> String {
    std::env::args().next().map_or_else(|| "tidemill".to_owned(), |name| printable(&name))
}
