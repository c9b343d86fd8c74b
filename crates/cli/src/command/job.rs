//! `tidemill job`: looks at single jobs and acts on them.

use std::process::ExitCode;

use serde_json::value::RawValue;
use tidemill::{Error, JobId, Timestamp};

use crate::context::Context;
use crate::output::job::JobView;
use crate::output::{Cell, Colour, Table, printable, time::relative};

/// Look at jobs: show, list, cancel, wait
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// Show one job
    Show {
        /// Which
        job: JobId,
    },
}

pub(crate) async fn run(action: Action, context: &Context) -> anyhow::Result<ExitCode> {
    match action {
        Action::Show { job } => show(&job, context).await,
    }
}

async fn show(job: &JobId, context: &Context) -> anyhow::Result<ExitCode> {
    let mill = context.mill().await?;
    let info = mill.store().get(job).await?.ok_or_else(|| Error::NotFound(format!("job {job}")))?;
    let (view, now) = (JobView::of(&info), mill.store().clock().now());
    if context.out.is_json() {
        context.out.json(&view)?;
    } else {
        context.out.table(&facts(&view, now))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn facts(view: &JobView, now: Timestamp) -> Table {
    let mut facts = Table::facts();
    facts.fact("job", view.job.as_str());
    facts.fact("state", Cell::text(view.state.to_string()).colour(Colour::of(view.state)));
    let when = |time: Timestamp| format!("{time} ({})", relative(now, time));
    let text = |text: &String| printable(text);
    let json = |json: &Box<RawValue>| printable(json.get());
    let lines = [
        ("kind", view.kind.clone()),
        ("queue", view.queue.as_ref().map(ToString::to_string)),
        ("delivery", view.delivery.map(|delivery| delivery.to_string())),
        ("attempts", Some(view.tries()).filter(|tries| !tries.is_empty())),
        ("enqueued", view.enqueued_at.as_ref().map(text)),
        ("due", view.due.map(when)),
        ("held by", view.held_by.as_ref().map(text)),
        ("asked to stop", view.cancelling.then(|| "yes".to_owned())),
        ("died", view.died_at.map(when)),
        ("reason", view.reason.as_ref().map(text)),
        ("last error", view.last_error.as_ref().map(text)),
        ("ended", view.finished_at.map(when)),
        ("output", view.output.as_ref().map(json)),
        ("payload", view.payload().as_ref().map(json)),
    ];
    for (name, fact) in lines {
        if let Some(fact) = fact {
            facts.fact(name, fact);
        }
    }
    facts
}
