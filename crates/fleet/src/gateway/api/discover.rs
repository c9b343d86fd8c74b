//! What clients ask a browser before they connect, answered so that they connect here.

use hyper::StatusCode;
use serde_json::json;

use super::{Call, Reply, json_reply};

impl Call<'_> {
    /// `GET …/json/version`, as a browser with DevTools answers it: by `connectOverCDP('http://…')` and `browserURL`. Path
    /// and query stay, so what is asked for by them is asked for when the client connects.
    pub(super) fn dev_tools(&self) -> Reply {
        let path = self.parts.uri.path().trim_end_matches('/').trim_end_matches("json/version");
        let query = self.parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let answer = json!({
            "Browser": concat!("Tidemill/", env!("CARGO_PKG_VERSION")),
            "Protocol-Version": "1.3",
            "webSocketDebuggerUrl": format!("{}{path}{query}", self.address()),
        });
        json_reply(StatusCode::OK, &answer)
    }

    /// `GET …/json`, as a server of Playwright answers it: by `connect('http://…')`. The client adds it to its own path.
    pub(super) fn playwright() -> Reply {
        json_reply(StatusCode::OK, &json!({ "wsEndpointPath": "" }))
    }
}
