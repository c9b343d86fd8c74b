//! The gateway's routes. Each states the scope it requires: the match is exhaustive.

use hyper::Method;
use tidemill_core::fleet::{SessionId, WorkerKey};

use super::http_error::HttpError;
use super::token::Scope;

/// A request's route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// A new session. Path, query and headers describe the browser.
    Browser,
    /// A session that is open already.
    Session(SessionId),
    /// Discovery by CDP clients: `/json/version`.
    DevToolsVersion,
    /// Discovery by Playwright clients: `/json`.
    PlaywrightEndpoint,
    ListSessions,
    ReserveSession,
    ShowSession(SessionId),
    CloseSession(SessionId),
    ListWorkers,
    ShowWorker(WorkerKey),
    Capacity,
    Health,
    Ready,
    Metrics,
}

impl Route {
    /// The scope a caller's token must grant; `None` needs no token.
    pub(crate) fn scope(&self) -> Option<Scope> {
        match self {
            Self::Browser | Self::Session(_) | Self::DevToolsVersion | Self::PlaywrightEndpoint => {
                Some(Scope::Session)
            }
            Self::ReserveSession => Some(Scope::Session),
            Self::ListSessions | Self::ShowSession(_) => Some(Scope::Read),
            Self::ListWorkers | Self::ShowWorker(_) | Self::Capacity | Self::Metrics => Some(Scope::Read),
            Self::CloseSession(_) => Some(Scope::Admin),
            // Probes have no token, and learn only that the gateway runs.
            Self::Health | Self::Ready => None,
        }
    }

    /// The route of a request. `upgrade`: it requests a WebSocket.
    pub(crate) fn from_request(method: &Method, path: &str, upgrade: bool) -> Result<Self, HttpError> {
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        if upgrade {
            return Self::from_upgrade(&parts);
        }
        let get = *method == Method::GET || *method == Method::HEAD;
        match &parts[..] {
            ["v1", api @ ..] => Self::from_api(method, api),
            _ if !get => Err(not_allowed(method)),
            ["healthz"] => Ok(Self::Health),
            ["readyz"] => Ok(Self::Ready),
            ["metrics"] => Ok(Self::Metrics),
            [.., "json", "version"] => Ok(Self::DevToolsVersion),
            [.., "json"] => Ok(Self::PlaywrightEndpoint),
            _ => Err(HttpError::not_found(
                "there is nothing here; a browser is had by a WebSocket, the API is under /v1",
            )),
        }
    }

    fn from_upgrade(parts: &[&str]) -> Result<Self, HttpError> {
        match parts {
            ["session", id] => Ok(Self::Session(parse_session_id(id)?)),
            _ => Ok(Self::Browser),
        }
    }

    fn from_api(method: &Method, parts: &[&str]) -> Result<Self, HttpError> {
        let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
        let route = match parts {
            ["sessions"] if method == get => Self::ListSessions,
            ["sessions"] if method == post => Self::ReserveSession,
            ["sessions", id] if method == get => Self::ShowSession(parse_session_id(id)?),
            ["sessions", id] if method == delete => Self::CloseSession(parse_session_id(id)?),
            ["workers"] if method == get => Self::ListWorkers,
            ["workers", id] if method == get => Self::ShowWorker(id.parse().map_err(invalid)?),
            ["capacity"] if method == get => Self::Capacity,
            ["sessions" | "workers", ..] | ["capacity"] => return Err(not_allowed(method)),
            _ => return Err(HttpError::not_found("the API has sessions, workers and capacity")),
        };
        Ok(route)
    }
}

fn parse_session_id(id: &str) -> Result<SessionId, HttpError> {
    SessionId::new(id).map_err(invalid)
}

fn invalid(error: tidemill_core::name::InvalidName) -> HttpError {
    HttpError::invalid(error.to_string())
}

fn not_allowed(method: &Method) -> HttpError {
    HttpError::new(hyper::StatusCode::METHOD_NOT_ALLOWED, "method", format!("{method} does nothing here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Option<Route> {
        Route::from_request(&Method::GET, path, false).ok()
    }

    #[test]
    fn clients_find_out_where_to_connect_below_any_path() {
        for path in ["/json/version", "/json/version/", "/chromium/json/version/"] {
            assert_eq!(get(path), Some(Route::DevToolsVersion), "{path}");
        }
        assert_eq!(get("/json"), Some(Route::PlaywrightEndpoint));
        assert_eq!(get("/playwright/json"), Some(Route::PlaywrightEndpoint));
    }

    #[test]
    fn a_method_that_does_nothing_is_refused_and_nothing_else_is_found() {
        let status =
            |method: Method, path| Route::from_request(&method, path, false).unwrap_err().status.as_u16();
        assert_eq!(status(Method::PUT, "/v1/sessions"), 405);
        assert_eq!(status(Method::POST, "/metrics"), 405);
        assert_eq!(status(Method::GET, "/v1"), 404);
        assert_eq!(status(Method::GET, "/chromium"), 404);
    }

    #[test]
    fn a_session_is_named_by_its_path() {
        let route = |path| Route::from_request(&Method::GET, path, true);
        assert!(matches!(route("/session/abc/"), Ok(Route::Session(id)) if id.as_str() == "abc"));
        assert!(route("/session/a%20b").is_err());
        assert_eq!(route("/chromium"), Ok(Route::Browser));
    }

    #[test]
    fn only_probes_need_no_token() {
        let open = |path| get(path).and_then(|route| route.scope()).is_none();
        assert!(open("/healthz") && open("/readyz") && !open("/metrics") && !open("/json/version"));
    }
}
