//! `tidemill chain`: starts, shows, completes and deletes chains.

use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tidemill::chain::{Completion, Continuation};
use tidemill::job::JobState;
use tidemill::store::{Completed, Deleted};
use tidemill::{Client, JobId, Kind, QueueName};

use crate::command::{enqueue, job};
use crate::context::Context;
use crate::for_each_id::for_each_id;
use crate::output::printable;
use crate::payload;
use crate::time;

/// Chains (jobs that continue one another): start, show, wait, complete, delete
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum ChainCommand {
    /// Start a chain and print its id, which is the id of its first job
    #[command(
        after_help = "Example:\n  tidemill chain start reserve --payload '{\"order\":7}' --dedup order-7 --wait 30s"
    )]
    Start(Box<enqueue::EnqueueArgs>),
    /// Show a chain: its current job, or its output
    #[command(after_help = "Example:\n  tidemill chain show order-7")]
    Show {
        /// Id of the chain
        chain: JobId,
    },
    /// Wait until a chain is closed and print its output
    #[command(after_help = "Example:\n  tidemill chain wait order-7 --timeout 30s")]
    Wait {
        /// Id of the chain
        chain: JobId,
        /// How long to wait
        #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
        timeout: Option<Duration>,
    },
    /// Complete a chain's current job from outside its handler, even while it is leased: an
    /// approval, a webhook
    #[command(after_help = COMPLETE_EXAMPLES)]
    Complete(CompleteArgs),
    /// Delete chains with all their jobs; rejected while another chain waits for one
    #[command(after_help = "Example:\n  tidemill chain delete order-7")]
    Delete {
        /// Ids of the chains
        #[arg(required = true)]
        chains: Vec<JobId>,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill chain start reserve --payload '{\"order\":7}' --id order-7
  tidemill chain start ship --after order-7 --wait
  tidemill chain complete order-7 --kind approve --output '\"yes\"'";

const COMPLETE_EXAMPLES: &str = "\
Examples:
  tidemill chain complete order-7 --kind approve --output '\"yes\"'
  tidemill chain complete order-7 --continue ship --payload '{\"order\":7}'";

/// How to complete a job.
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    /// Id of the chain; with `~N` only if the chain is at step N
    chain: JobId,

    /// Complete only a job of this kind
    #[arg(long)]
    kind: Option<Kind>,

    /// Output of the job, and so of the chain: JSON, @FILE or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "null")]
    output: String,

    /// Continue with a job of this kind instead of closing the chain
    #[arg(long = "continue", value_name = "KIND", conflicts_with = "output")]
    next: Option<Kind>,

    /// Payload of the next job: JSON, @FILE or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}", requires = "next")]
    payload: String,

    /// Queue of the next job
    #[arg(long, default_value = "default", requires = "next")]
    queue: QueueName,
}

pub(crate) async fn run(command: ChainCommand, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        ChainCommand::Start(args) => enqueue::run(args.with_kept_result(), context).await,
        ChainCommand::Show { chain } => job::show(&chain, &context.client().await?, context).await,
        ChainCommand::Wait { chain, timeout } => {
            enqueue::wait(&context.client().await?, &chain, timeout, context).await?;
            Ok(ExitCode::SUCCESS)
        }
        ChainCommand::Complete(args) => complete(args, context).await,
        ChainCommand::Delete { chains } => delete(&chains, &context.client().await?, context).await,
    }
}

/// The result of a command on a chain, as JSON.
#[derive(Debug, Serialize)]
struct ChainResult<'a> {
    chain: &'a JobId,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<JobState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    awaited_by: Option<JobId>,
}

async fn complete(args: CompleteArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let limit = context.config.limits.payload;
    let end = match &args.next {
        Some(kind) => {
            let payload = payload::read("payload", &args.payload, limit)?;
            Completion::Continue(Box::new(Continuation::untyped(kind.clone(), args.queue.clone(), &payload)))
        }
        None => Completion::Output(Bytes::copy_from_slice(
            payload::read("output", &args.output, limit)?.get().as_bytes(),
        )),
    };
    let client = context.client().await?;
    let kind = args.kind.as_ref().map(Kind::as_str);
    let (text, result, state) = match client.complete_untyped(&args.chain, kind, end).await? {
        Completed::Yes => ("completed".to_owned(), "completed", None),
        Completed::Ended(state) => (format!("had ended already: {state}"), "ended", Some(state)),
        Completed::NotFound => ("not found".to_owned(), "not_found", None),
    };
    let chain = &args.chain;
    let answer = ChainResult { chain, result, state, awaited_by: None };
    context.printer.result(printable(&format!("{chain} {text}")), &answer)?;
    Ok(if result == "completed" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn delete(chains: &[JobId], client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    for_each_id(chains, async |chain| {
        let (text, result, awaited_by) = match client.delete(chain).await? {
            Deleted::Yes => ("deleted".to_owned(), "deleted", None),
            Deleted::Awaited(by) => (format!("is not deleted: {by} waits for it"), "awaited", Some(by)),
            Deleted::NotFound => ("not found".to_owned(), "not_found", None),
        };
        let answer = ChainResult { chain, result, state: None, awaited_by };
        context.printer.result(printable(&format!("{chain} {text}")), &answer)?;
        Ok(result == "deleted")
    })
    .await
}
