//! Access control: checks of Host, Origin and token.

use std::collections::HashSet;
use std::net::IpAddr;

use hyper::header::{HeaderMap, HeaderName};
use hyper::{StatusCode, Uri, header};

use super::http_error::HttpError;
use super::request::Query;
use super::route::Route;
use super::token::{AccessTokens, Scope};

/// The authorized caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name of its token.
    pub(crate) token: Option<String>,
    /// Whether it may do everything: by its token, or because no token is configured.
    pub(crate) is_admin: bool,
}

/// The configured tokens, hosts and origins.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessControl {
    pub(crate) tokens: AccessTokens,
    pub(crate) allowed_hosts: HashSet<String>,
    pub(crate) allowed_origins: HashSet<String>,
}

impl AccessControl {
    /// Authorizes a request and returns its caller.
    pub(crate) fn authorize(
        &self,
        route: &Route,
        headers: &HeaderMap,
        query: &Query,
    ) -> Result<Caller, HttpError> {
        self.check_host(headers)?;
        self.check_origin(headers)?;
        self.check_token(route, headers, query)
    }

    /// Rejects requests with two Host headers or an absolute URL: a proxy in front of this gateway
    /// may go by one name and the gateway by the other.
    pub(crate) fn check_request_target(uri: &Uri, headers: &HeaderMap) -> Result<(), HttpError> {
        if uri.scheme().is_some() || uri.authority().is_some() {
            return Err(HttpError::invalid("a request names a path, not a whole URL"));
        }
        if headers.get_all(header::HOST).iter().count() > 1 {
            return Err(HttpError::invalid("a request has one Host"));
        }
        Ok(())
    }

    /// Protects against DNS rebinding: a page whose name points here sends that name, never an
    /// address.
    fn check_host(&self, headers: &HeaderMap) -> Result<(), HttpError> {
        let host =
            header_text(headers, header::HOST).map(strip_port).unwrap_or_default().to_ascii_lowercase();
        let local = host == "localhost" || host.ends_with(".localhost");
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        if local || address || self.allowed_hosts.contains(&host) {
            return Ok(());
        }
        Err(forbidden("host", "this gateway does not go by that name; --allow-host lets it"))
    }

    /// Programs send no Origin; web pages do.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), HttpError> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let known = |origin: &str| self.allowed_origins.contains(&origin.to_ascii_lowercase());
        if origins.all(|origin| origin.to_str().is_ok_and(known)) {
            return Ok(());
        }
        Err(forbidden("origin", "pages of that origin may not use this gateway; --allow-origin lets them"))
    }

    fn check_token(&self, route: &Route, headers: &HeaderMap, query: &Query) -> Result<Caller, HttpError> {
        let Some(scope) = route.scope().filter(|_| !self.tokens.is_empty()) else {
            return Ok(Caller { token: None, is_admin: self.tokens.is_empty() });
        };
        let bearer = header_text(headers, header::AUTHORIZATION).and_then(bearer_token);
        let Some(secret) = bearer.or_else(|| query.get("token")) else {
            let message = match route {
                // Puppeteer requests this path whatever its `browserURL` contains.
                Route::DevToolsVersion => {
                    "a token is needed: Authorization: Bearer SECRET, or ?token=SECRET; the browserURL of Puppeteer carries \
                     none, so use browserWSEndpoint: 'ws://HOST/?token=SECRET'"
                }
                _ => "a token is needed: Authorization: Bearer SECRET, or ?token=SECRET",
            };
            return Err(HttpError::new(StatusCode::UNAUTHORIZED, "token", message));
        };
        let Some(token) = self.tokens.find(secret) else {
            return Err(HttpError::new(StatusCode::UNAUTHORIZED, "token", "that token is not known here"));
        };
        if !token.grants(scope) {
            return Err(forbidden("scope", format!("that token does not have the scope {scope}")));
        }
        Ok(Caller { token: Some(token.name().to_owned()), is_admin: token.grants(Scope::Admin) })
    }
}

fn forbidden(code: &'static str, message: impl Into<String>) -> HttpError {
    HttpError::new(StatusCode::FORBIDDEN, code, message)
}

pub(crate) fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim())
}

/// A host without its port.
pub(crate) fn strip_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(
        access: &AccessControl,
        headers: &[(&'static str, &str)],
        query: &str,
    ) -> Result<Option<String>, u16> {
        let named =
            |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), value.parse().unwrap());
        let headers = headers.iter().map(named).collect();
        access
            .authorize(&Route::Capacity, &headers, &Query::parse(query))
            .map(|caller| caller.token)
            .map_err(|error| error.status.as_u16())
    }

    #[test]
    fn we_go_by_local_names_addresses_and_names_that_were_allowed() {
        let access =
            AccessControl { allowed_hosts: ["gate.internal".to_owned()].into(), ..AccessControl::default() };
        for host in
            ["localhost:1", "a.localhost", "127.0.0.1:7718", "[::1]:80", "10.0.0.7", "Gate.Internal:7718"]
        {
            assert_eq!(admit(&access, &[("host", host)], ""), Ok(None), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "", "gate.internal.evil"] {
            assert_eq!(admit(&access, &[("host", host)], ""), Err(403), "{host}");
        }
        assert_eq!(admit(&access, &[], ""), Err(403));
    }

    #[test]
    fn pages_are_let_in_by_their_origin_only() {
        let access = AccessControl {
            allowed_origins: ["https://app.example".to_owned()].into(),
            ..AccessControl::default()
        };
        let from = |origin| admit(&access, &[("host", "localhost"), ("origin", origin)], "");
        assert_eq!(from("https://app.example"), Ok(None));
        assert_eq!([from("null"), from("http://app.example")], [Err(403), Err(403)]);
    }

    #[test]
    fn a_token_comes_as_a_header_or_in_the_query_and_opens_its_scopes() {
        let mut access = AccessControl::default();
        access.tokens.add("ci=one:session".parse().unwrap());
        access.tokens.add("ops=two:read".parse().unwrap());
        let with = |value| admit(&access, &[("host", "localhost"), ("authorization", value)], "");
        assert_eq!(
            [with("Bearer two"), with("bearer two")],
            [Ok(Some("ops".into())), Ok(Some("ops".into()))]
        );
        assert_eq!(
            [with("Bearer one"), with("Bearer three"), with("Basic two")],
            [Err(403), Err(401), Err(401)]
        );
        assert_eq!(admit(&access, &[("host", "localhost")], "a=b&token=two"), Ok(Some("ops".into())));
        assert_eq!(admit(&access, &[("host", "localhost")], ""), Err(401));
    }
}
