//! Who is let in: by the name they call us, the page they come from, and the token they have.

use std::collections::HashSet;
use std::net::IpAddr;

use hyper::header::{HeaderMap, HeaderName};
use hyper::{StatusCode, Uri, header};

use super::query::Query;
use super::refusal::Refusal;
use super::route::Route;
use super::token::{Scope, Tokens};

/// Who was let in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name of its token.
    pub(crate) token: Option<String>,
    /// It may do everything: by its token, or because there are none.
    pub(crate) is_admin: bool,
}

/// What is asked of whoever comes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Door {
    pub(crate) tokens: Tokens,
    pub(crate) hosts: HashSet<String>,
    pub(crate) origins: HashSet<String>,
}

impl Door {
    /// Lets a request in, and says whose it is.
    pub(crate) fn admit(&self, route: &Route, headers: &HeaderMap, query: &Query) -> Result<Caller, Refusal> {
        self.check_host(headers)?;
        self.check_origin(headers)?;
        self.check_token(route, headers, query)
    }

    /// A request has one name for us. With two of them, or with another one in its first line, what is before us may go by
    /// one, and we by the other.
    pub(crate) fn check_form(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        if uri.scheme().is_some() || uri.authority().is_some() {
            return Err(Refusal::invalid("a request names a path, not a whole URL"));
        }
        if headers.get_all(header::HOST).iter().count() > 1 {
            return Err(Refusal::invalid("a request has one Host"));
        }
        Ok(())
    }

    /// A page whose name was made to point here would otherwise be taken for one of our own. Such a page comes with a
    /// name of its own, never with an address.
    fn check_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = text(headers, header::HOST).map(name_of).unwrap_or_default().to_ascii_lowercase();
        let local = host == "localhost" || host.ends_with(".localhost");
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        if local || address || self.hosts.contains(&host) {
            return Ok(());
        }
        Err(forbidden("host", "this gateway does not go by that name; --allow-host lets it"))
    }

    /// Programs send no Origin, pages do.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let known = |origin: &str| self.origins.contains(&origin.to_ascii_lowercase());
        if origins.all(|origin| origin.to_str().is_ok_and(known)) {
            return Ok(());
        }
        Err(forbidden("origin", "pages of that origin may not use this gateway; --allow-origin lets them"))
    }

    fn check_token(&self, route: &Route, headers: &HeaderMap, query: &Query) -> Result<Caller, Refusal> {
        let Some(scope) = route.scope().filter(|_| !self.tokens.is_empty()) else {
            return Ok(Caller { token: None, is_admin: self.tokens.is_empty() });
        };
        let bearer = text(headers, header::AUTHORIZATION).and_then(bearer);
        let Some(secret) = bearer.or_else(|| query.get("token")) else {
            let message = match route {
                // Puppeteer asks for this path whatever else is in its `browserURL`.
                Route::DevTools => {
                    "a token is needed: Authorization: Bearer SECRET, or ?token=SECRET; the browserURL of Puppeteer carries \
                     none, so use browserWSEndpoint: 'ws://HOST/?token=SECRET'"
                }
                _ => "a token is needed: Authorization: Bearer SECRET, or ?token=SECRET",
            };
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, "token", message));
        };
        let Some(token) = self.tokens.find(secret) else {
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, "token", "that token is not known here"));
        };
        if !token.opens(scope) {
            return Err(forbidden("scope", format!("that token does not have the scope {scope}")));
        }
        Ok(Caller { token: Some(token.name().to_owned()), is_admin: token.opens(Scope::Admin) })
    }
}

fn forbidden(code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, code, message)
}

pub(crate) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim())
}

/// A host without its port.
pub(crate) fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(door: &Door, headers: &[(&'static str, &str)], query: &str) -> Result<Option<String>, u16> {
        let named =
            |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), value.parse().unwrap());
        let headers = headers.iter().map(named).collect();
        door.admit(&Route::Capacity, &headers, &Query::parse(query))
            .map(|caller| caller.token)
            .map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn we_go_by_local_names_addresses_and_names_that_were_allowed() {
        let door = Door { hosts: ["gate.internal".to_owned()].into(), ..Door::default() };
        for host in
            ["localhost:1", "a.localhost", "127.0.0.1:7718", "[::1]:80", "10.0.0.7", "Gate.Internal:7718"]
        {
            assert_eq!(admit(&door, &[("host", host)], ""), Ok(None), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "", "gate.internal.evil"] {
            assert_eq!(admit(&door, &[("host", host)], ""), Err(403), "{host}");
        }
        assert_eq!(admit(&door, &[], ""), Err(403));
    }

    #[test]
    fn pages_are_let_in_by_their_origin_only() {
        let door = Door { origins: ["https://app.example".to_owned()].into(), ..Door::default() };
        let from = |origin| admit(&door, &[("host", "localhost"), ("origin", origin)], "");
        assert_eq!(from("https://app.example"), Ok(None));
        assert_eq!([from("null"), from("http://app.example")], [Err(403), Err(403)]);
    }

    #[test]
    fn a_token_comes_as_a_header_or_in_the_query_and_opens_its_scopes() {
        let mut door = Door::default();
        door.tokens.add("ci=one:session".parse().unwrap());
        door.tokens.add("ops=two:read".parse().unwrap());
        let with = |value| admit(&door, &[("host", "localhost"), ("authorization", value)], "");
        assert_eq!(
            [with("Bearer two"), with("bearer two")],
            [Ok(Some("ops".into())), Ok(Some("ops".into()))]
        );
        assert_eq!(
            [with("Bearer one"), with("Bearer three"), with("Basic two")],
            [Err(403), Err(401), Err(401)]
        );
        assert_eq!(admit(&door, &[("host", "localhost")], "a=b&token=two"), Ok(Some("ops".into())));
        assert_eq!(admit(&door, &[("host", "localhost")], ""), Err(401));
    }
}
