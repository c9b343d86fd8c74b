//! Signals, queries and updates of runs, and commands that end or reset them.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tidemill::workflow::{Json, RunError, RunHandle, RunId, StartWorkflows, Topic};

use super::{EndRunArgs, MessageArgs, RunArg};
use crate::context::Context;
use crate::for_each_id::for_each_id;
use crate::output::printable;
use crate::payload;

/// The result of a command on a run, as JSON.
#[derive(Debug, Serialize)]
struct MessageResult<'a> {
    run: &'a RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a Topic>,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a Json>,
}

async fn open_run(
    message: &MessageArgs,
    context: &Context,
) -> anyhow::Result<(RunHandle<Box<RawValue>>, Json)> {
    let payload = payload::read("payload", &message.payload, context.config.limits.payload)?;
    Ok((message.run.find(&context.client().await?).await?, Json::from(payload)))
}

pub(super) async fn signal(message: MessageArgs, context: &Context) -> anyhow::Result<()> {
    let (handle, payload) = open_run(&message, context).await?;
    handle.signal_untyped(message.name.as_str(), payload).await?;
    let run = handle.id();
    let answer = MessageResult { run, name: Some(&message.name), result: "sent", output: None };
    let text = format!("signal {} sent to {run}", message.name);
    Ok(context.printer.result(printable(&text), &answer)?)
}

pub(super) async fn query(message: MessageArgs, context: &Context) -> anyhow::Result<()> {
    let (handle, input) = open_run(&message, context).await?;
    let answer = handle.query_untyped(message.name.as_str(), input).await?;
    print(handle.id(), &message.name, &answer, context)
}

/// The code of a run may never read the update, so the wait is bounded.
pub(super) async fn update(message: MessageArgs, limit: Duration, context: &Context) -> anyhow::Result<()> {
    let (handle, payload) = open_run(&message, context).await?;
    let answer = handle.update_within(message.name.as_str(), payload, limit).await?;
    print(handle.id(), &message.name, &answer, context)
}

fn print(run: &RunId, name: &Topic, json: &Json, context: &Context) -> anyhow::Result<()> {
    let answer = MessageResult { run, name: Some(name), result: "answered", output: Some(json) };
    Ok(context.printer.stored(json.as_str(), &answer)?)
}

/// How a run is ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum EndMode {
    Cancel,
    Terminate,
}

pub(super) async fn end(end: EndRunArgs, mode: EndMode, context: &Context) -> anyhow::Result<ExitCode> {
    let client = context.client().await?;
    let mut runs = end.runs;
    runs.extend(end.key.find(&client).await?);
    for_each_id(&runs, async |run| {
        let handle = client.untyped_run_handle(run.clone());
        let ended = match mode {
            EndMode::Cancel => handle.cancel_with_reason(&end.reason).await,
            EndMode::Terminate => handle.terminate(&end.reason).await,
        };
        let (text, result) = match (mode, ended) {
            (EndMode::Cancel, Ok(())) => ("is asked to end".to_owned(), "requested"),
            (EndMode::Terminate, Ok(())) => ("terminated".to_owned(), "terminated"),
            (_, Err(RunError::Closed { status, .. })) => (format!("had ended already: {status}"), "ended"),
            (_, Err(RunError::NotFound(_))) => ("not found".to_owned(), "not_found"),
            (_, Err(error)) => return Err(error.into()),
        };
        let answer = MessageResult { run, name: None, result, output: None };
        context.printer.result(printable(&format!("{run} {text}")), &answer)?;
        Ok(matches!(result, "requested" | "terminated"))
    })
    .await
}

/// A run that continues from a position of another run, as JSON.
#[derive(Debug, Serialize)]
struct ResetResult<'a> {
    run: &'a RunId,
    from: &'a RunId,
    position: u64,
}

pub(super) async fn reset(run: RunArg, position: u64, context: &Context) -> anyhow::Result<()> {
    let run = run.find(&context.client().await?).await?;
    let handle = run.reset(position).await?;
    Ok(context.printer.result(handle.id(), &ResetResult { run: handle.id(), from: run.id(), position })?)
}
