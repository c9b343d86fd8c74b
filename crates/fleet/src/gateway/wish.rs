//! What a client wants: which browser, spoken to how, and what is to be known of its session.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, USER_AGENT};
use serde::Serialize;
use tidemill_core::fleet::{Offer, WorkerKind};
use tidemill_core::store::fleet::MAX_DETAIL_BYTES;

use super::door::text;
use super::protocol::{Protocol, playwright_version};
use super::query::Query;
use super::refusal::Refusal;
use super::span;

/// Clients of Playwright name the browser they are for by this; `connectOverCDP` does not send it.
const PLAYWRIGHT_BROWSER: HeaderName = HeaderName::from_static("x-playwright-browser");

/// Metadata as `KEY=VALUE&KEY=VALUE`, for clients that cannot change their URL.
const META: HeaderName = HeaderName::from_static("x-tidemill-meta");

const MOST_META: usize = 32;
const LONGEST_NAME: usize = 128;

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) kind: WorkerKind,
    pub(crate) protocol: Protocol,
    /// The version of Playwright the client is, as `1.64`.
    pub(crate) version: Option<String>,
    /// How long the session outlives its connection.
    pub(crate) keep: Duration,
    pub(crate) note: Note,
}

/// What is to be known of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Note {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) meta: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<&'static str>,
    /// Where the client connected from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<String>,
    /// By which token it was let in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}

impl Wish {
    /// Reads what a client that connects wants.
    pub(crate) fn of(path: &str, query: &Query, headers: &HeaderMap) -> Result<Self, Refusal> {
        let header = text(headers, PLAYWRIGHT_BROWSER);
        let (said, named) = of_path(path)?;
        let said =
            said.map_or_else(|| query.get("protocol").map(str::parse).transpose(), |it| Ok(Some(it)))?;
        let kind = header.or(named).or_else(|| query.get("browser")).map(kind).transpose()?;
        let protocol = said.or(header.map(|_| Protocol::Playwright));
        let meta = text(headers, META).map(Query::parse);
        let meta = query.below("meta.").chain(meta.iter().flat_map(|meta| meta.below("")));
        let asked = Asked {
            kind,
            protocol,
            keep: query.get("keep").map(span::read).transpose().map_err(Refusal::invalid)?,
            name: query.get("name").map(str::to_owned),
            meta: meta.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        };
        let version = text(headers, USER_AGENT).and_then(playwright_version);
        Ok(Self { version, ..asked.wish()? })
    }

    /// What a browser may offer to be right for this client, the best first.
    pub(crate) fn offers(&self) -> Result<Vec<Offer>, Refusal> {
        self.protocol.offers(self.version.as_deref()).map_err(|error| Refusal::invalid(error.to_string()))
    }

    /// What is to be known of the session, as it is stored.
    pub(crate) fn detail(&self) -> Result<Bytes, Refusal> {
        let detail = serde_json::to_vec(&self.note).map_err(|error| Refusal::invalid(error.to_string()))?;
        if detail.len() > MAX_DETAIL_BYTES {
            return Err(Refusal::invalid(format!(
                "name and metadata are longer than {MAX_DETAIL_BYTES} bytes"
            )));
        }
        Ok(detail.into())
    }
}

/// What was asked for, before what follows from it.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) kind: Option<WorkerKind>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) keep: Option<Duration>,
    pub(crate) name: Option<String>,
    pub(crate) meta: BTreeMap<String, String>,
}

impl Asked {
    /// The wish behind it.
    pub(crate) fn wish(self) -> Result<Wish, Refusal> {
        let (kind, protocol) = Protocol::settle(self.kind, self.protocol)?;
        let keep = self.keep.unwrap_or_default();
        if protocol == Protocol::Playwright && !keep.is_zero() {
            // Its server closes the pages of a connection with the connection.
            let why = "a session over Playwright ends with its connection; keep works over cdp and bidi";
            return Err(Refusal::invalid(why));
        }
        if self.name.as_ref().is_some_and(|name| name.len() > LONGEST_NAME) || self.meta.len() > MOST_META {
            let most =
                format!("a name has at most {LONGEST_NAME} bytes, metadata at most {MOST_META} entries");
            return Err(Refusal::invalid(most));
        }
        let note =
            Note { name: self.name, meta: self.meta, protocol: Some(protocol.word()), ..Note::default() };
        Ok(Wish { kind, protocol, version: None, keep, note })
    }
}

/// A kind of browser by the name clients have for it.
pub(crate) fn kind(name: &str) -> Result<WorkerKind, Refusal> {
    let name = if name == "chrome" { "chromium" } else { name };
    let kind = WorkerKind::new(name).map_err(|error| Refusal::invalid(error.to_string()))?;
    if kind == WorkerKind::jobs() {
        return Err(Refusal::invalid("workers that run jobs take no clients"));
    }
    Ok(kind)
}

/// `/chromium`, `/playwright`, `/playwright/chromium`.
fn of_path(path: &str) -> Result<(Option<Protocol>, Option<&str>), Refusal> {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    match &parts[..] {
        [] => Ok((None, None)),
        [one] => Ok(one.parse().map_or((None, Some(*one)), |protocol| (Some(protocol), None))),
        [protocol, kind] => Ok((Some(protocol.parse()?), Some(*kind))),
        _ => Err(Refusal::not_found("a browser is had at /, /BROWSER or /PROTOCOL/BROWSER")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(path: &str, query: &str, headers: &[(&'static str, &str)]) -> Result<Wish, Refusal> {
        let named =
            |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), value.parse().unwrap());
        Wish::of(path, &Query::parse(query), &headers.iter().map(named).collect())
    }

    fn offers(path: &str, query: &str, headers: &[(&'static str, &str)]) -> String {
        let wish = wish(path, query, headers).unwrap();
        let offers: Vec<_> = wish.offers().unwrap().iter().map(ToString::to_string).collect();
        format!("{} {}", wish.kind, offers.join("|"))
    }

    #[test]
    fn a_client_is_routed_by_header_path_and_query() {
        let agent = ("user-agent", "Playwright/1.64.1 (x64; debian 12) node/20.19");
        let header = |browser| [("x-playwright-browser", browser), agent];
        assert_eq!(offers("/", "", &header("firefox")), "firefox playwright-1.64|playwright");
        assert_eq!(offers("/chromium", "", &header("chromium")), "chromium playwright-1.64|playwright");
        assert_eq!(offers("/playwright/webkit", "", &[agent]), "webkit playwright-1.64|playwright");
        assert_eq!(offers("/playwright", "browser=firefox", &[]), "firefox playwright");
        // What connects over CDP names no browser, though it is Playwright, too.
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
            assert!(wish(path, query, &[]).is_err(), "{path} {query}");
        }
    }

    #[test]
    fn name_and_metadata_come_by_query_and_header() {
        let wish =
            wish("/", "name=login&meta.team=web&keep=2m", &[("x-tidemill-meta", "run=7&by=a%20b")]).unwrap();
        let detail = String::from_utf8(wish.detail().unwrap().to_vec()).unwrap();
        let meta = r#""meta":{"by":"a b","run":"7","team":"web"}"#;
        assert_eq!(detail, format!(r#"{{"name":"login",{meta},"protocol":"cdp"}}"#));
        assert_eq!(wish.keep, Duration::from_secs(120));
    }

    #[test]
    fn metadata_has_bounds() {
        let many: String = (0..40).map(|number| format!("meta.{number}=x&")).collect();
        assert!(wish("/", &many, &[]).is_err());
        let long = format!("meta.a={}", "x".repeat(MAX_DETAIL_BYTES));
        assert!(wish("/", &long, &[]).unwrap().detail().is_err());
    }
}
