//! The routes there are. Each says what it asks of the caller: one that does not say so does not compile.

use hyper::Method;
use tidemill_core::fleet::{SessionId, WorkerKey};

use super::refusal::Refusal;
use super::token::Scope;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// A browser: everything about it is in the path before, the query and the headers.
    Browser,
    /// A session that was opened before.
    Session(SessionId),
    /// Where a client of CDP connects to, as browsers say it.
    DevTools,
    /// Where a client of Playwright connects to, as its servers say it.
    Playwright,
    ListSessions,
    OpenSession,
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
    /// What the caller's token must open; `None` is open to whoever reaches us.
    pub(crate) fn scope(&self) -> Option<Scope> {
        match self {
            Self::Browser | Self::Session(_) | Self::DevTools | Self::Playwright => Some(Scope::Session),
            Self::OpenSession => Some(Scope::Session),
            Self::ListSessions | Self::ShowSession(_) => Some(Scope::Read),
            Self::ListWorkers | Self::ShowWorker(_) | Self::Capacity | Self::Metrics => Some(Scope::Read),
            Self::CloseSession(_) => Some(Scope::Admin),
            // Probes have no token, and learn nothing but that we live.
            Self::Health | Self::Ready => None,
        }
    }

    /// The route of a request. `upgrade`: it wants a WebSocket.
    pub(crate) fn of(method: &Method, path: &str, upgrade: bool) -> Result<Self, Refusal> {
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        if upgrade {
            return Self::of_upgrade(&parts);
        }
        let get = *method == Method::GET || *method == Method::HEAD;
        match &parts[..] {
            ["v1", api @ ..] => Self::of_api(method, api),
            _ if !get => Err(not_allowed(method)),
            ["healthz"] => Ok(Self::Health),
            ["readyz"] => Ok(Self::Ready),
            ["metrics"] => Ok(Self::Metrics),
            [.., "json", "version"] => Ok(Self::DevTools),
            [.., "json"] => Ok(Self::Playwright),
            _ => Err(Refusal::not_found(
                "there is nothing here; a browser is had by a WebSocket, the API is under /v1",
            )),
        }
    }

    fn of_upgrade(parts: &[&str]) -> Result<Self, Refusal> {
        match parts {
            ["session", id] => Ok(Self::Session(session(id)?)),
            _ => Ok(Self::Browser),
        }
    }

    fn of_api(method: &Method, parts: &[&str]) -> Result<Self, Refusal> {
        let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
        let route = match parts {
            ["sessions"] if method == get => Self::ListSessions,
            ["sessions"] if method == post => Self::OpenSession,
            ["sessions", id] if method == get => Self::ShowSession(session(id)?),
            ["sessions", id] if method == delete => Self::CloseSession(session(id)?),
            ["workers"] if method == get => Self::ListWorkers,
            ["workers", id] if method == get => Self::ShowWorker(id.parse().map_err(invalid)?),
            ["capacity"] if method == get => Self::Capacity,
            ["sessions" | "workers", ..] | ["capacity"] => return Err(not_allowed(method)),
            _ => return Err(Refusal::not_found("the API has sessions, workers and capacity")),
        };
        Ok(route)
    }
}

fn session(id: &str) -> Result<SessionId, Refusal> {
    SessionId::new(id).map_err(invalid)
}

fn invalid(error: tidemill_core::name::InvalidName) -> Refusal {
    Refusal::invalid(error.to_string())
}

fn not_allowed(method: &Method) -> Refusal {
    Refusal::new(hyper::StatusCode::METHOD_NOT_ALLOWED, "method", format!("{method} does nothing here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Option<Route> {
        Route::of(&Method::GET, path, false).ok()
    }

    #[test]
    fn clients_find_out_where_to_connect_below_any_path() {
        for path in ["/json/version", "/json/version/", "/chromium/json/version/"] {
            assert_eq!(get(path), Some(Route::DevTools), "{path}");
        }
        assert_eq!(get("/json"), Some(Route::Playwright));
        assert_eq!(get("/playwright/json"), Some(Route::Playwright));
    }

    #[test]
    fn a_method_that_does_nothing_is_refused_and_nothing_else_is_found() {
        let status = |method: Method, path| Route::of(&method, path, false).unwrap_err().status.as_u16();
        assert_eq!(status(Method::PUT, "/v1/sessions"), 405);
        assert_eq!(status(Method::POST, "/metrics"), 405);
        assert_eq!(status(Method::GET, "/v1"), 404);
        assert_eq!(status(Method::GET, "/chromium"), 404);
    }

    #[test]
    fn a_session_is_named_by_its_path() {
        let route = |path| Route::of(&Method::GET, path, true);
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
