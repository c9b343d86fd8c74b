//! Speaking to runs, and ending them.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tidemill::workflow::{Json, RunError, RunHandle, RunId, StartWorkflows, Topic};

use super::{End, Message};
use crate::context::Context;
use crate::output::printable;
use crate::payload;
use crate::several::each;

/// What became of what was said, for programs.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    run: &'a RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a Topic>,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a Json>,
}

async fn address(message: &Message, context: &Context) -> anyhow::Result<(RunHandle<Box<RawValue>>, Json)> {
    let payload = payload::read("payload", &message.payload, context.settings.limits.payload)?;
    Ok((context.client().await?.untyped_run(message.run.clone()), Json::from(payload)))
}

pub(super) async fn signal(message: Message, context: &Context) -> anyhow::Result<()> {
    let (handle, payload) = address(&message, context).await?;
    handle.signal_untyped(message.name.as_str(), payload).await?;
    let answer = Answer { run: &message.run, name: Some(&message.name), result: "sent", output: None };
    let text = format!("signal {} sent to {}", message.name, message.run);
    Ok(context.out.result(printable(&text), &answer)?)
}

pub(super) async fn query(message: Message, context: &Context) -> anyhow::Result<()> {
    let (handle, input) = address(&message, context).await?;
    let answer = handle.query_untyped(message.name.as_str(), input).await?;
    print(&message, &answer, context)
}

/// An update that the run's code never asks for has no answer, so nobody may wait for it for ever.
pub(super) async fn update(message: Message, limit: Duration, context: &Context) -> anyhow::Result<()> {
    let (handle, payload) = address(&message, context).await?;
    let answer = handle.update_within(message.name.as_str(), payload, limit).await?;
    print(&message, &answer, context)
}

fn print(message: &Message, json: &Json, context: &Context) -> anyhow::Result<()> {
    let answer =
        Answer { run: &message.run, name: Some(&message.name), result: "answered", output: Some(json) };
    Ok(context.out.stored(json.as_str(), &answer)?)
}

/// In which way a run is ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Cancel,
    Terminate,
}

pub(super) async fn end(end: End, way: Way, context: &Context) -> anyhow::Result<ExitCode> {
    let client = context.client().await?;
    each(&end.runs, async |run| {
        let handle = client.untyped_run(run.clone());
        let ended = match way {
            Way::Cancel => handle.cancel(&end.reason).await,
            Way::Terminate => handle.terminate(&end.reason).await,
        };
        let (text, result) = match (way, ended) {
            (Way::Cancel, Ok(())) => ("is asked to end".to_owned(), "requested"),
            (Way::Terminate, Ok(())) => ("terminated".to_owned(), "terminated"),
            (_, Err(RunError::Closed { status, .. })) => (format!("had ended already: {status}"), "ended"),
            (_, Err(RunError::NotFound(_))) => ("not found".to_owned(), "not_found"),
            (_, Err(error)) => return Err(error.into()),
        };
        let answer = Answer { run, name: None, result, output: None };
        context.out.result(printable(&format!("{run} {text}")), &answer)?;
        Ok(matches!(result, "requested" | "terminated"))
    })
    .await
}

/// A run that begins where another was, for programs.
#[derive(Debug, Serialize)]
struct Reset<'a> {
    run: &'a RunId,
    from: &'a RunId,
    position: u64,
}

pub(super) async fn reset(run: RunId, position: u64, context: &Context) -> anyhow::Result<()> {
    let handle = context.client().await?.untyped_run(run.clone()).reset(position).await?;
    Ok(context.out.result(handle.id(), &Reset { run: handle.id(), from: &run, position })?)
}
