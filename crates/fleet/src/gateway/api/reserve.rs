//! `POST /v1/sessions`: a session before there is a connection to it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;

use super::super::connection::enter;
use super::super::holdings::Stay;
use super::super::open::{check_keep, terms};
use super::super::place::{Search, Ticket};
use super::super::protocol::Protocol;
use super::super::span;
use super::super::wish::{Asked, Wish, kind};
use super::{Call, Refusal, Reply, json_reply};

/// The longest wish.
const LONGEST: usize = 64 << 10;

/// How long it may take to say it.
const IN_TIME: Duration = Duration::from_secs(10);

/// How long a session waits for its first connection unless that is said.
const KEEP: Duration = Duration::from_secs(60);

/// What is wanted, as JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Body {
    browser: Option<String>,
    protocol: Option<String>,
    keep: Option<String>,
    name: Option<String>,
    meta: BTreeMap<String, String>,
}

impl Call<'_> {
    /// Leases a browser ahead. It is kept for whoever connects to the session in time.
    pub(super) async fn reserve(&self, body: Incoming) -> Result<Reply, Refusal> {
        let (_visit, wish) = (enter(self.desk)?, self.read(body).await?);
        check_keep(self.desk, &wish)?;
        let ticket = Ticket::new(self.desk.clone());
        let mut search = Search::new(self.desk, &wish, &ticket)?;
        // The store takes it for over when nobody has come by then.
        search.lease.ttl = self.desk.options.session_time.map_or(wish.keep, |most| most.min(wish.keep));
        let (ticket, grant) = search.place(ticket).await?;
        let (session, terms) = (ticket.used(), terms(self.desk, &search.lease, &grant));
        let stay = Stay::Kept(Instant::now() + terms.keep());
        self.desk.holdings.enter(&session, terms, stay);
        let answer = json!({
            "id": session,
            "webSocketUrl": format!("{}/session/{session}", self.address()),
            "worker": grant.worker,
            "offer": grant.offer,
            "until": grant.until,
        });
        Ok(json_reply(StatusCode::CREATED, &answer))
    }

    async fn read(&self, body: Incoming) -> Result<Wish, Refusal> {
        let whole = tokio::time::timeout(IN_TIME, Limited::new(body, LONGEST).collect()).await;
        let whole = whole
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| Refusal::invalid("the body is too long or too late"))?;
        let bytes = whole.to_bytes();
        let bytes = if bytes.is_empty() { "{}".into() } else { bytes };
        let wrong = |error: serde_json::Error| {
            Refusal::invalid(format!("the body is not what it should be: {error}"))
        };
        let body: Body = serde_json::from_slice(&bytes).map_err(wrong)?;
        let asked = Asked {
            kind: body.browser.as_deref().map(kind).transpose()?,
            protocol: body.protocol.as_deref().map(str::parse::<Protocol>).transpose()?,
            keep: Some(body.keep.as_deref().map_or(Ok(KEEP), span::read).map_err(Refusal::invalid)?),
            name: body.name,
            meta: body.meta,
        };
        if Protocol::settle(asked.kind.clone(), asked.protocol)?.1 == Protocol::Playwright {
            let why =
                "a session over Playwright begins and ends with its connection and cannot be opened ahead";
            return Err(Refusal::invalid(why));
        }
        if asked.keep.is_some_and(|keep| keep.is_zero()) {
            return Err(Refusal::invalid(
                "a session that is opened ahead must be kept for its first connection",
            ));
        }
        let mut wish = asked.wish()?;
        (wish.note.client, wish.note.token) = (Some(self.client.to_string()), self.token.clone());
        Ok(wish)
    }
}
