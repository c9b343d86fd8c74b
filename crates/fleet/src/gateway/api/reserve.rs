//! `POST /v1/sessions`: a session that is reserved before its connection.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;

use super::super::acquire::Acquisition;
use super::super::connection::admit_client;
use super::super::open::{check_keep, session_spec};
use super::super::protocol::Protocol;
use super::super::request::{BrowserRequest, BrowserRequestFields, parse_duration, parse_kind};
use super::{ApiRequest, HttpError, Reply, json_reply};
use crate::lease::ConnectionState;

/// The largest body.
const MAX_BODY_BYTES: usize = 64 << 10;

/// How long the body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a session waits for its first connection by default.
const DEFAULT_KEEP: Duration = Duration::from_secs(60);

/// The JSON body.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReserveBody {
    browser: Option<String>,
    protocol: Option<String>,
    keep: Option<String>,
    name: Option<String>,
    meta: BTreeMap<String, String>,
}

impl ApiRequest<'_> {
    /// Leases a browser ahead and keeps it for a client that connects in time.
    pub(super) async fn reserve_session(&self, body: Incoming) -> Result<Reply, HttpError> {
        let (_client_token, request) = (admit_client(self.shared)?, self.read_request(body).await?);
        check_keep(self.shared, &request)?;
        let mut acquisition = Acquisition::new(self.shared, &request)?;
        // The session expires in the store if no client has connected by then.
        acquisition.lease.params.ttl =
            self.shared.options.session_time.map_or(request.keep, |max| max.min(request.keep));
        let (grant, lease) = (acquisition.acquire().await?, acquisition.lease);
        let spec = session_spec(self.shared, &lease.params, &grant);
        let session = lease.into_session();
        let connection = ConnectionState::Kept(Instant::now() + spec.remaining_keep());
        self.shared.leases.sessions.insert(&session, spec, connection);
        let reply = json!({
            "id": session,
            "webSocketUrl": format!("{}/session/{session}", self.websocket_base_url()),
            "worker": grant.worker,
            "offer": grant.offer,
            "until": grant.until,
        });
        Ok(json_reply(StatusCode::CREATED, &reply))
    }

    async fn read_request(&self, body: Incoming) -> Result<BrowserRequest, HttpError> {
        let body_bytes =
            tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await;
        let body_bytes = body_bytes
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| HttpError::invalid("the body is too long or too late"))?;
        let bytes = body_bytes.to_bytes();
        let bytes = if bytes.is_empty() { "{}".into() } else { bytes };
        let malformed = |error: serde_json::Error| {
            HttpError::invalid(format!("the body is not what it should be: {error}"))
        };
        let body: ReserveBody = serde_json::from_slice(&bytes).map_err(malformed)?;
        let fields = BrowserRequestFields {
            kind: body.browser.as_deref().map(parse_kind).transpose()?,
            protocol: body.protocol.as_deref().map(str::parse::<Protocol>).transpose()?,
            keep: Some(
                body.keep.as_deref().map_or(Ok(DEFAULT_KEEP), parse_duration).map_err(HttpError::invalid)?,
            ),
            name: body.name,
            meta: body.meta,
        };
        if Protocol::resolve(fields.kind.clone(), fields.protocol)?.1 == Protocol::Playwright {
            let message =
                "a session over Playwright begins and ends with its connection and cannot be opened ahead";
            return Err(HttpError::invalid(message));
        }
        if fields.keep.is_some_and(|keep| keep.is_zero()) {
            return Err(HttpError::invalid(
                "a session that is opened ahead must be kept for its first connection",
            ));
        }
        let mut request = fields.into_request()?;
        (request.detail.client, request.detail.token) = (Some(self.client.to_string()), self.token.clone());
        Ok(request)
    }
}
