//! Looking at runs.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tidemill::store::runs::ListRunsParams;
use tidemill::workflow::{Diagnosis, Journal, RunHandle, RunId, RunProgress, StartWorkflows};
use tidemill::{Client, Timestamp};

use super::List;
use crate::browse;
use crate::context::Context;
use crate::output::run::{RunView, facts, table};
use crate::output::time::{brief, relative};
use crate::output::{printable, timeline};
use crate::when::When;

/// How long a worker is asked what the run's code waits for.
const ASK: Duration = Duration::from_millis(500);

pub(super) async fn list(list: List, context: &Context) -> anyhow::Result<()> {
    let client = context.client().await?;
    let now = client.store().clock().now();
    let wanted = |cursor, limit| ListRunsParams {
        workflow: list.workflow.clone(),
        status: list.status,
        since: list.since.map(|when| moment(now, when)),
        before: list.before.map(|when| moment(now, when)),
        attribute: list.attribute.clone(),
        cursor,
        limit,
    };
    let page = |cursor, limit| client.runs(wanted(cursor, limit));
    let (runs, more) = browse::first(list.limit as usize, page).await?;
    let views: Vec<_> = runs.iter().map(RunView::of).collect();
    Ok(context.list((&views, more), "there are no such runs", |views| table(views, now))?)
}

fn moment(now: Timestamp, when: When) -> Timestamp {
    match when {
        When::At(at) => at,
        When::In(ago) => Timestamp(now.0 - i64::try_from(ago.as_millis()).unwrap_or(now.0)),
    }
}

/// A run and why it is not moving, for programs.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    run: RunView,
    why: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    waits: Vec<Waiting>,
}

#[derive(Debug, Serialize)]
struct Waiting {
    what: String,
    since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

pub(super) async fn show(run: RunId, context: &Context) -> anyhow::Result<()> {
    let client: Client = context.client().await?;
    let handle = client.untyped_run(run);
    let diagnosis = handle.diagnose().await?;
    let waits = waits(&handle, &diagnosis).await;
    if context.out.is_json() {
        return print_json(&diagnosis, waits, context);
    }
    let now = client.store().clock().now();
    context.out.table(&facts(&RunView::of(&diagnosis.info), now))?;
    context.out.text("")?;
    // A journal with a damaged entry still has a run that can be shown.
    match handle.journal().await {
        Ok(journal) => context.out.text(timeline::draw(&journal.entries, now, context.out.style()))?,
        Err(error) => context.out.text(format!("the journal cannot be drawn: {error}\n"))?,
    }
    context.out.text(standing(&diagnosis, &waits, now))?;
    Ok(())
}

/// What the run waits for: what its code says, if a worker that knows it is there, or else what its journal says.
async fn waits<O>(handle: &RunHandle<O>, diagnosis: &Diagnosis) -> Vec<Waiting> {
    let asked = match diagnosis.progress {
        RunProgress::Waiting => handle.waits(ASK).await.ok(),
        _ => None,
    };
    let waits = asked.unwrap_or_else(|| diagnosis.waits.clone());
    let note = |seq: Option<u64>| {
        // The code knows what it waits for, and the store what holds that up.
        diagnosis.waits.iter().find(|wait| seq.is_some() && wait.seq == seq)?.note.clone()
    };
    let shown = waits.into_iter().map(|wait| {
        let note = note(wait.seq);
        Waiting { what: wait.what, since: wait.since, note }
    });
    shown.collect()
}

fn standing(diagnosis: &Diagnosis, waits: &[Waiting], now: Timestamp) -> String {
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
        let _ = write!(text, "\n  {}, for {}", printable(&wait.what), brief(wait.since.until(now)));
        if let Some(note) = &wait.note {
            let _ = write!(text, ": {}", printable_line(note));
        }
    }
    if waits.len() > 20 {
        let _ = write!(text, "\n  and {} more", waits.len() - 20);
    }
    text
}

/// Others wrote it, in several lines.
fn lines(reason: &str) -> String {
    reason.lines().map(|line| format!("  {}", printable_line(line))).collect::<Vec<_>>().join("\n")
}

fn printable_line(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn print_json(diagnosis: &Diagnosis, waits: Vec<Waiting>, context: &Context) -> anyhow::Result<()> {
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
    let run = RunView::of(&diagnosis.info);
    Ok(context.out.json(&Shown { run, why, reason: reason.map(String::as_str), waits })?)
}

pub(super) async fn journal(run: RunId, context: &Context) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Line<'a> {
        position: u64,
        #[serde(flatten)]
        entry: &'a tidemill::workflow::Entry,
    }
    let journal = read(run, context).await?;
    for (index, entry) in journal.entries.iter().enumerate() {
        let position = journal.base + index as u64 + 1;
        let json = serde_json::to_string(entry)?;
        context.out.result(format!("{position:>6}  {}", printable(&json)), &Line { position, entry })?;
    }
    Ok(())
}

pub(super) async fn export(run: RunId, file: &str, context: &Context) -> anyhow::Result<()> {
    let journal = read(run, context).await?;
    let mut json = serde_json::to_vec_pretty(&journal)?;
    json.push(b'\n');
    if file == "-" {
        context.out.bytes(&json)?;
    } else {
        std::fs::write(file, json).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(())
}

async fn read(run: RunId, context: &Context) -> anyhow::Result<Journal> {
    Ok(context.client().await?.untyped_run(run).journal().await?)
}
