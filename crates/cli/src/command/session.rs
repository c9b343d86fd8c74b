//! `tidemill session`: lists, shows and closes browser sessions.

use std::process::ExitCode;

use serde::Serialize;
use tidemill::fleet::{SessionId, WorkerKey};
use tidemill::{Client, Error};

use crate::context::Context;
use crate::for_each_id::for_each_id;
use crate::output::session::{SessionView, facts, table};
use crate::pages;

/// Browser sessions: list, show, close
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum SessionCommand {
    /// List sessions
    #[command(after_help = "Example:\n  tidemill session list --worker chromium:abc123")]
    List {
        /// Only sessions on this worker
        #[arg(long, value_name = "KIND:NAME")]
        worker: Option<WorkerKey>,
        /// Maximum number of results
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// Show one session
    #[command(after_help = "Example:\n  tidemill session show 5c1f0b8e1d5a4c7f9e3b2a1d0c9f8e7d")]
    Show {
        /// Id of the session
        session: SessionId,
    },
    /// Close sessions; their holders are notified at once
    #[command(after_help = "Example:\n  tidemill session close 5c1f0b8e1d5a4c7f9e3b2a1d0c9f8e7d")]
    Close {
        /// Ids of the sessions
        #[arg(required = true)]
        sessions: Vec<SessionId>,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill session list
  tidemill session close 5c1f0b8e1d5a4c7f9e3b2a1d0c9f8e7d";

pub(crate) async fn run(command: SessionCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let client = context.client().await?;
    match command {
        SessionCommand::List { worker, limit } => list(worker.as_ref(), limit, &client, context).await,
        SessionCommand::Show { session } => show(&session, &client, context).await,
        SessionCommand::Close { sessions } => close(&sessions, &client, context).await,
    }
}

async fn list(
    worker: Option<&WorkerKey>,
    limit: usize,
    client: &Client,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let fleet = client.fleet();
    let page = |cursor, limit| fleet.sessions(worker, pages::page_params(cursor, limit));
    let (found, more) = pages::first_items(limit, page).await?;
    let (views, now) = (found.iter().map(SessionView::new).collect::<Vec<_>>(), client.now());
    context.list(&views, more, "there are no sessions", |views| table(views, now))?;
    Ok(ExitCode::SUCCESS)
}

async fn show(session: &SessionId, client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    let info = client.fleet().session(session).await?;
    let info = info.ok_or_else(|| Error::NotFound(format!("session {session}")))?;
    let view = SessionView::new(&info);
    if context.printer.is_json() {
        context.printer.json(&view)?;
    } else {
        context.printer.table(&facts(&view, client.now()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The result of closing a session, as JSON.
#[derive(Debug, Serialize)]
struct CloseResult<'a> {
    session: &'a SessionId,
    result: &'static str,
}

async fn close(sessions: &[SessionId], client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    for_each_id(sessions, async |session| {
        let exists = client.fleet().close(session).await?;
        let (text, result) = if exists { ("is closed", "closed") } else { ("not found", "not_found") };
        context.printer.result(format!("{session} {text}"), &CloseResult { session, result })?;
        Ok(exists)
    })
    .await
}
