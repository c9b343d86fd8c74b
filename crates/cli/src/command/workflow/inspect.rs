//! Listing and showing runs.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tidemill::store::runs::ListRunsParams;
use tidemill::workflow::{Diagnosis, Journal, RunHandle, RunProgress, StartWorkflows};
use tidemill::{Client, Timestamp};

use super::{ListArgs, RunArg};
use crate::context::Context;
use crate::output::run::{RunView, facts, table};
use crate::output::time::{brief_duration, relative};
use crate::output::{printable, timeline};
use crate::pages;
use crate::time::TimeArg;

/// Timeout of the query for the waits of the run's code.
const WAITS_QUERY_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) async fn list(list: ListArgs, context: &Context) -> anyhow::Result<()> {
    let client = context.client().await?;
    let now = client.now();
    let wanted = |cursor, limit| ListRunsParams {
        workflow: list.workflow.clone(),
        status: list.status,
        since: list.since.map(|when| resolve_time(now, when)),
        before: list.before.map(|when| resolve_time(now, when)),
        attribute: list.attribute.clone(),
        cursor,
        limit,
    };
    let page = |cursor, limit| client.runs(wanted(cursor, limit));
    let (runs, more) = pages::first_items(list.limit as usize, page).await?;
    let views: Vec<_> = runs.iter().map(RunView::new).collect();
    Ok(context.list(&views, more, "there are no such runs", |views| table(views, now))?)
}

fn resolve_time(now: Timestamp, when: TimeArg) -> Timestamp {
    match when {
        TimeArg::At(at) => at,
        TimeArg::In(ago) => Timestamp(now.0 - i64::try_from(ago.as_millis()).unwrap_or(now.0)),
    }
}

/// A run with its diagnosis, as JSON.
#[derive(Debug, Serialize)]
struct DiagnosedRun<'a> {
    #[serde(flatten)]
    run: RunView,
    why: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    waits: Vec<WaitView>,
}

#[derive(Debug, Serialize)]
struct WaitView {
    what: String,
    since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

pub(super) async fn show(run: RunArg, context: &Context) -> anyhow::Result<()> {
    let client: Client = context.client().await?;
    let handle = run.find(&client).await?;
    let diagnosis = handle.diagnose().await?;
    let waits = waits(&handle, &diagnosis).await;
    if context.printer.is_json() {
        return print_json(&diagnosis, waits, context);
    }
    let now = client.now();
    context.printer.table(&facts(&RunView::new(&diagnosis.info), now))?;
    context.printer.text("")?;
    // A run whose journal has a damaged entry can still be shown.
    match handle.journal().await {
        Ok(journal) => {
            context.printer.text(timeline::draw(&journal.entries, now, context.printer.style()))?
        }
        Err(error) => context.printer.text(format!("the journal cannot be drawn: {error}\n"))?,
    }
    context.printer.text(describe_status(&diagnosis, &waits, now))?;
    Ok(())
}

/// The waits of a run, from its code if a worker answers, otherwise from its journal.
async fn waits<O>(handle: &RunHandle<O>, diagnosis: &Diagnosis) -> Vec<WaitView> {
    let asked = match diagnosis.progress {
        RunProgress::Waiting => handle.waits(WAITS_QUERY_TIMEOUT).await.ok(),
        _ => None,
    };
    let waits = asked.unwrap_or_else(|| diagnosis.waits.clone());
    let note = |seq: Option<u64>| {
        // The code knows the waits, and the store knows what delays them.
        diagnosis.waits.iter().find(|wait| seq.is_some() && wait.seq == seq)?.note.clone()
    };
    let shown = waits.into_iter().map(|wait| {
        let note = note(wait.seq);
        WaitView { what: wait.what, since: wait.since, note }
    });
    shown.collect()
}

fn describe_status(diagnosis: &Diagnosis, waits: &[WaitView], now: Timestamp) -> String {
    use std::fmt::Write as _;
    let mut text = match &diagnosis.progress {
        RunProgress::Ended(status) => return format!("it has ended: {status}"),
        RunProgress::Waiting if waits.is_empty() => {
            "it waits for something that only its code knows, and no worker that has it answers".to_owned()
        }
        RunProgress::Waiting => "it waits for".to_owned(),
        RunProgress::Queued { queue } => format!("it waits for a worker on queue {queue}"),
        RunProgress::Paused { queue } => {
            format!("its queue {queue} is paused (`tidemill queue resume {queue}`)")
        }
        RunProgress::Running { by } => format!("worker {by} is carrying it on"),
        RunProgress::Blocked { reason, until } => {
            let again = until
                .filter(|until| *until > now)
                .map(|until| format!(", and tried again {}", relative(now, until)));
            format!("it is blocked{}:\n{}", again.unwrap_or_default(), lines(reason))
        }
        RunProgress::TaskMissing => {
            "its task was taken away; the next signal makes it anew (`tidemill workflow signal`)".to_owned()
        }
        RunProgress::Dead { reason } => format!(
            "its task is in the dead letters (`tidemill dlq redrive --queue {}`):\n{}",
            diagnosis.info.queue.name,
            lines(reason)
        ),
    };
    for wait in waits.iter().take(20) {
        let _ = write!(text, "\n  {}, for {}", printable(&wait.what), brief_duration(wait.since.until(now)));
        if let Some(note) = &wait.note {
            let _ = write!(text, ": {}", printable_line(note));
        }
    }
    if waits.len() > 20 {
        let _ = write!(text, "\n  and {} more", waits.len() - 20);
    }
    text
}

/// Indents a reason of several lines and removes its control characters.
fn lines(reason: &str) -> String {
    reason.lines().map(|line| format!("  {}", printable_line(line))).collect::<Vec<_>>().join("\n")
}

fn printable_line(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn print_json(diagnosis: &Diagnosis, waits: Vec<WaitView>, context: &Context) -> anyhow::Result<()> {
    let (why, reason) = match &diagnosis.progress {
        RunProgress::Ended(_) => ("ended", None),
        RunProgress::Waiting => ("waits", None),
        RunProgress::Queued { queue } => ("queued", Some(queue)),
        RunProgress::Paused { queue } => ("paused", Some(queue)),
        RunProgress::Running { by } => ("moves", Some(by)),
        RunProgress::Blocked { reason, .. } => ("blocked", Some(reason)),
        RunProgress::TaskMissing => ("stranded", None),
        RunProgress::Dead { reason } => ("dead", Some(reason)),
    };
    let run = RunView::new(&diagnosis.info);
    Ok(context.printer.json(&DiagnosedRun { run, why, reason: reason.map(String::as_str), waits })?)
}

pub(super) async fn journal(run: RunArg, context: &Context) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct JournalLine<'a> {
        position: u64,
        #[serde(flatten)]
        entry: &'a tidemill::workflow::Entry,
    }
    let journal = read(run, context).await?;
    for (index, entry) in journal.entries.iter().enumerate() {
        let position = journal.base + index as u64 + 1;
        let json = serde_json::to_string(entry)?;
        context
            .printer
            .result(format!("{position:>6}  {}", printable(&json)), &JournalLine { position, entry })?;
    }
    Ok(())
}

pub(super) async fn export(run: RunArg, file: &str, context: &Context) -> anyhow::Result<()> {
    let journal = read(run, context).await?;
    let mut json = serde_json::to_vec_pretty(&journal)?;
    json.push(b'\n');
    if file == "-" {
        context.printer.bytes(&json)?;
    } else {
        std::fs::write(file, json).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(())
}

async fn read(run: RunArg, context: &Context) -> anyhow::Result<Journal> {
    Ok(run.find(&context.client().await?).await?.journal().await?)
}
