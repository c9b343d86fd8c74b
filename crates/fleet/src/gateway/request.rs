//! A client's request for a browser: kind, protocol, keep time and metadata.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, USER_AGENT};
use serde::Serialize;
use tidemill_core::fleet::{Offer, WorkerKind};
use tidemill_core::store::fleet::MAX_DETAIL_BYTES;
use url::form_urlencoded;

use super::access::header_text;
use super::http_error::HttpError;
use super::protocol::{Protocol, playwright_version};

/// Playwright clients send their browser type in this header; `connectOverCDP` does not.
const PLAYWRIGHT_BROWSER_HEADER: HeaderName = HeaderName::from_static("x-playwright-browser");

/// Metadata as `KEY=VALUE&KEY=VALUE`, for clients that cannot change their URL.
const META_HEADER: HeaderName = HeaderName::from_static("x-tidemill-meta");

const MAX_META_ENTRIES: usize = 32;
const MAX_NAME_BYTES: usize = 128;

/// A client's request for a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrowserRequest {
    pub(crate) kind: WorkerKind,
    pub(crate) protocol: Protocol,
    /// The client's Playwright version, such as `1.64`.
    pub(crate) version: Option<String>,
    /// How long the session outlives its connection.
    pub(crate) keep: Duration,
    pub(crate) detail: SessionDetail,
}

/// The detail that is stored with a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SessionDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) meta: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<&'static str>,
    /// The client's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<String>,
    /// The name of its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}

impl BrowserRequest {
    /// Parses the request of a connecting client.
    pub(crate) fn from_http(path: &str, query: &Query, headers: &HeaderMap) -> Result<Self, HttpError> {
        let header = header_text(headers, PLAYWRIGHT_BROWSER_HEADER);
        let (path_protocol, named) = parse_path(path)?;
        let path_protocol = path_protocol
            .map_or_else(|| query.get("protocol").map(str::parse).transpose(), |it| Ok(Some(it)))?;
        let kind = header.or(named).or_else(|| query.get("browser")).map(parse_kind).transpose()?;
        let protocol = path_protocol.or(header.map(|_| Protocol::Playwright));
        let meta = header_text(headers, META_HEADER).map(Query::parse);
        let meta = query.with_prefix("meta.").chain(meta.iter().flat_map(|meta| meta.with_prefix("")));
        let fields = BrowserRequestFields {
            kind,
            protocol,
            keep: query.get("keep").map(parse_duration).transpose().map_err(HttpError::invalid)?,
            name: query.get("name").map(str::to_owned),
            meta: meta.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        };
        let version = header_text(headers, USER_AGENT).and_then(playwright_version);
        Ok(Self { version, ..fields.into_request()? })
    }

    /// The offers that suit this client, best first.
    pub(crate) fn offers(&self) -> Result<Vec<Offer>, HttpError> {
        self.protocol.offers(self.version.as_deref()).map_err(|error| HttpError::invalid(error.to_string()))
    }

    /// The detail as it is stored.
    pub(crate) fn encode_detail(&self) -> Result<Bytes, HttpError> {
        let detail =
            serde_json::to_vec(&self.detail).map_err(|error| HttpError::invalid(error.to_string()))?;
        if detail.len() > MAX_DETAIL_BYTES {
            return Err(HttpError::invalid(format!(
                "name and metadata are longer than {MAX_DETAIL_BYTES} bytes"
            )));
        }
        Ok(detail.into())
    }
}

/// The fields of a request before defaults and checks.
#[derive(Debug)]
pub(crate) struct BrowserRequestFields {
    pub(crate) kind: Option<WorkerKind>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) keep: Option<Duration>,
    pub(crate) name: Option<String>,
    pub(crate) meta: BTreeMap<String, String>,
}

impl BrowserRequestFields {
    /// Applies defaults and checks.
    pub(crate) fn into_request(self) -> Result<BrowserRequest, HttpError> {
        let (kind, protocol) = Protocol::resolve(self.kind, self.protocol)?;
        let keep = self.keep.unwrap_or_default();
        if protocol == Protocol::Playwright && !keep.is_zero() {
            // Playwright's server closes the pages of a connection with the connection.
            let message = "a session over Playwright ends with its connection; keep works over cdp and bidi";
            return Err(HttpError::invalid(message));
        }
        if self.name.as_ref().is_some_and(|name| name.len() > MAX_NAME_BYTES)
            || self.meta.len() > MAX_META_ENTRIES
        {
            let message = format!(
                "a name has at most {MAX_NAME_BYTES} bytes, metadata at most {MAX_META_ENTRIES} entries"
            );
            return Err(HttpError::invalid(message));
        }
        let detail = SessionDetail {
            name: self.name,
            meta: self.meta,
            protocol: Some(protocol.as_str()),
            ..SessionDetail::default()
        };
        Ok(BrowserRequest { kind, protocol, version: None, keep, detail })
    }
}

/// Parses a browser kind by the name clients use.
pub(crate) fn parse_kind(name: &str) -> Result<WorkerKind, HttpError> {
    let name = if name == "chrome" { "chromium" } else { name };
    let kind = WorkerKind::new(name).map_err(|error| HttpError::invalid(error.to_string()))?;
    if kind == WorkerKind::jobs() {
        return Err(HttpError::invalid("workers that run jobs take no clients"));
    }
    Ok(kind)
}

/// Parses `/chromium`, `/playwright` or `/playwright/chromium`.
fn parse_path(path: &str) -> Result<(Option<Protocol>, Option<&str>), HttpError> {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    match &parts[..] {
        [] => Ok((None, None)),
        [one] => Ok(one.parse().map_or((None, Some(*one)), |protocol| (Some(protocol), None))),
        [protocol, kind] => Ok((Some(protocol.parse()?), Some(*kind))),
        _ => Err(HttpError::not_found("a browser is had at /, /BROWSER or /PROTOCOL/BROWSER")),
    }
}

/// The query parameters of a request in order. No `Debug`: one of them may be a token.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = form_urlencoded::parse(text.as_bytes());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The first value of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Parameters whose names start with `prefix`, by the rest of their names.
    pub(crate) fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

/// Parses `250ms`, `60s`, `5m`, `1h`, or a number of seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let malformed = || "a span of time is written like 250ms, 60s, 5m or 1h".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| malformed())?;
    let millis = match &text[digits..] {
        "ms" => Some(number),
        "" | "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => None,
    };
    millis.map(Duration::from_millis).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(
        path: &str,
        query: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<BrowserRequest, HttpError> {
        let named =
            |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), value.parse().unwrap());
        BrowserRequest::from_http(path, &Query::parse(query), &headers.iter().map(named).collect())
    }

    fn offers(path: &str, query: &str, headers: &[(&'static str, &str)]) -> String {
        let request = request(path, query, headers).unwrap();
        let offers: Vec<_> = request.offers().unwrap().iter().map(ToString::to_string).collect();
        format!("{} {}", request.kind, offers.join("|"))
    }

    #[test]
    fn a_client_is_routed_by_header_path_and_query() {
        let agent = ("user-agent", "Playwright/1.64.1 (x64; debian 12) node/20.19");
        let header = |browser| [("x-playwright-browser", browser), agent];
        assert_eq!(offers("/", "", &header("firefox")), "firefox playwright-1.64|playwright");
        assert_eq!(offers("/chromium", "", &header("chromium")), "chromium playwright-1.64|playwright");
        assert_eq!(offers("/playwright/webkit", "", &[agent]), "webkit playwright-1.64|playwright");
        assert_eq!(offers("/playwright", "browser=firefox", &[]), "firefox playwright");
        // A Playwright client that connects over CDP names no browser.
        assert_eq!(offers("/", "", &[agent]), "chromium cdp");
        assert_eq!(offers("/", "browser=chrome", &[]), "chromium cdp");
        assert_eq!(offers("/firefox", "", &[]), "firefox bidi");
        assert_eq!(offers("/bidi", "", &[]), "firefox bidi");
        assert_eq!(offers("/webkit", "", &[]), "webkit playwright");
        assert_eq!(offers("/cdp/chromium", "", &header("chromium")), "chromium cdp");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (path, query) in [
            ("/a/b/c", ""),
            ("/", "browser=a%20b"),
            ("/jobs", ""),
            ("/", "protocol=ftp"),
            ("/", "keep=soon"),
            ("/playwright", "keep=60s"),
        ] {
            assert!(request(path, query, &[]).is_err(), "{path} {query}");
        }
    }

    #[test]
    fn name_and_metadata_come_by_query_and_header() {
        let request =
            request("/", "name=login&meta.team=web&keep=2m", &[("x-tidemill-meta", "run=7&by=a%20b")])
                .unwrap();
        let detail = String::from_utf8(request.encode_detail().unwrap().to_vec()).unwrap();
        let meta = r#""meta":{"by":"a b","run":"7","team":"web"}"#;
        assert_eq!(detail, format!(r#"{{"name":"login",{meta},"protocol":"cdp"}}"#));
        assert_eq!(request.keep, Duration::from_secs(120));
    }

    #[test]
    fn metadata_has_bounds() {
        let many: String = (0..40).map(|number| format!("meta.{number}=x&")).collect();
        assert!(request("/", &many, &[]).is_err());
        let long = format!("meta.a={}", "x".repeat(MAX_DETAIL_BYTES));
        assert!(request("/", &long, &[]).unwrap().encode_detail().is_err());
    }

    #[test]
    fn reads_what_clients_write() {
        for (text, millis) in
            [("60", 60_000), ("60s", 60_000), ("250ms", 250), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert!(
            ["", "s", "-1s", "1d2", "1.5s", "99999999999999999h"]
                .into_iter()
                .all(|text| parse_duration(text).is_err())
        );
    }
}
