//! Discovery: what clients request from a browser before they connect, answered with this gateway's
//! address.

use hyper::StatusCode;
use serde_json::json;

use super::{ApiRequest, Reply, json_reply};

impl ApiRequest<'_> {
    /// `GET …/json/version`, as DevTools answers it. Used by `connectOverCDP('http://…')` and
    /// `browserURL`. The path and the query stay, so the client sends them again when it connects.
    pub(super) fn devtools_version(&self) -> Reply {
        let path = self.parts.uri.path().trim_end_matches('/').trim_end_matches("json/version");
        let query = self.parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let reply = json!({
            "Browser": concat!("Tidemill/", env!("CARGO_PKG_VERSION")),
            "Protocol-Version": "1.3",
            "webSocketDebuggerUrl": format!("{}{path}{query}", self.websocket_base_url()),
        });
        json_reply(StatusCode::OK, &reply)
    }

    /// `GET …/json`, as Playwright's server answers it. Used by `connect('http://…')`. The client
    /// appends the value to its own path.
    pub(super) fn playwright_endpoint() -> Reply {
        json_reply(StatusCode::OK, &json!({ "wsEndpointPath": "" }))
    }
}
