//! The endpoint of a browser.

use url::Url;

/// The parts of `ws://host:port/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The host to connect to.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The browser's own address for the `Host` header. With another value it takes the client for
    /// a web page.
    pub(crate) authority: String,
    /// Path and query of the request.
    pub(crate) target: String,
}

impl Endpoint {
    /// Parses a worker's endpoint. Only plain WebSockets: TLS between machines belongs to a lower
    /// layer.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok().filter(|url| url.scheme() == "ws")?;
        // An IPv6 address is dialled without its brackets.
        let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
        let port = url.port_or_known_default()?;
        let authority = format!("{}:{port}", url.host_str()?);
        let target =
            url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        Some(Self { host, port, authority, target })
    }

    /// Appends a path segment and keeps the query.
    pub(crate) fn join(mut self, part: &str) -> Self {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let path = format!("{}/{part}", path.trim_end_matches('/'));
        self.target = if query.is_empty() { path } else { format!("{path}?{query}") };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<(String, u16, String, String)> {
        Endpoint::parse(text).map(|it| (it.host, it.port, it.authority, it.target))
    }

    #[test]
    fn an_endpoint_says_whom_to_dial_and_what_to_ask_for() {
        let parsed = parts("ws://127.0.0.1:9222/devtools/browser/a?b=c").unwrap();
        assert_eq!(
            parsed,
            ("127.0.0.1".into(), 9222, "127.0.0.1:9222".into(), "/devtools/browser/a?b=c".into())
        );
        assert_eq!(parts("ws://[::1]:1").unwrap(), ("::1".into(), 1, "[::1]:1".into(), "/".into()));
        assert_eq!(parts("ws://worker").unwrap().1, 80);
        assert!(
            ["", "worker", "wss://a/", "http://a/", "ws://"].into_iter().all(|text| parts(text).is_none())
        );
    }

    #[test]
    fn more_path_goes_before_the_query() {
        let below = |text| Endpoint::parse(text).unwrap().join("x").target;
        assert_eq!([below("ws://a/session"), below("ws://a/s/?q")], ["/session/x", "/s/x?q"]);
    }
}
