//! `tidemill session`: looks at sessions on browsers, and ends them.

use std::process::ExitCode;

use serde::Serialize;
use tidemill::fleet::{ListSessionsParams, SessionId, WorkerKey};
use tidemill::{Client, Error};

use crate::browse;
use crate::context::Context;
use crate::output::session::{SessionView, facts, table};
use crate::several::each;

/// Look at sessions on browsers: list, show, close
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Action {
    /// List the sessions there are
    #[command(after_help = "Example:\n  tidemill session list --worker chromium:abc123")]
    List {
        /// On this worker only
        #[arg(long, value_name = "KIND:NAME")]
        worker: Option<WorkerKey>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// Show one session
    #[command(after_help = "Example:\n  tidemill session show 5c1f0b8e1d5a4c7f9e3b2a1d0c9f8e7d")]
    Show {
        /// Which session
        session: SessionId,
    },
    /// End sessions; whoever holds one hears of it at once
    #[command(after_help = "Example:\n  tidemill session close 5c1f0b8e1d5a4c7f9e3b2a1d0c9f8e7d")]
    Close {
        /// Which sessions
        #[arg(required = true)]
        sessions: Vec<SessionId>,
    },
}

const EXAMPLES: &str = "\
Examples:
  tidemill session list
  tidemill session close 5c1f0b8e1d5a4c7f9e3b2a1d0c9f8e7d";

pub(crate) async fn run(action: Action, context: &Context) -> anyhow::Result<ExitCode> {
    let client = context.client().await?;
    match action {
        Action::List { worker, limit } => list(worker.as_ref(), limit, &client, context).await,
        Action::Show { session } => show(&session, &client, context).await,
        Action::Close { sessions } => close(&sessions, &client, context).await,
    }
}

async fn list(
    worker: Option<&WorkerKey>,
    limit: usize,
    client: &Client,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let fleet = client.store().fleet();
    let page = |cursor, limit| fleet.list_sessions(ListSessionsParams { worker, cursor, limit });
    let (found, more) = browse::first(limit, page).await?;
    let (views, now) = (found.iter().map(SessionView::of).collect::<Vec<_>>(), client.store().clock().now());
    context.list((&views, more), "there are no sessions", |views| table(views, now))?;
    Ok(ExitCode::SUCCESS)
}

async fn show(session: &SessionId, client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    let info = client.store().fleet().get_session(session).await?;
    let info = info.ok_or_else(|| Error::NotFound(format!("session {session}")))?;
    let view = SessionView::of(&info);
    if context.out.is_json() {
        context.out.json(&view)?;
    } else {
        context.out.table(&facts(&view, client.store().clock().now()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What closing a session did, for programs.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    session: &'a SessionId,
    result: &'static str,
}

async fn close(sessions: &[SessionId], client: &Client, context: &Context) -> anyhow::Result<ExitCode> {
    each(sessions, async |session| {
        let there = client.store().fleet().close(session).await?;
        let (text, result) = if there { ("is closed", "closed") } else { ("not found", "not_found") };
        context.out.result(format!("{session} {text}"), &Answer { session, result })?;
        Ok(there)
    })
    .await
}
