//! URLs of Redis stores: scheme, servers and parameters. Errors never show a possible secret.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};
use tidemill_core::Error;

/// The default port of a Sentinel.
const SENTINEL_PORT: u16 = 26_379;

/// Whether a URL has the scheme of a Redis store.
pub fn is_redis_url(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| UrlKind::from_scheme(scheme).is_some())
}

/// What kind of server a URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UrlKind {
    Server,
    Cluster,
    Sentinel,
    Unix,
}

impl UrlKind {
    /// The kind, and the scheme for one server that the driver understands.
    fn from_scheme(scheme: &str) -> Option<(Self, &'static str)> {
        let (base, kind) = match scheme.split_once('+') {
            None if scheme == "unix" => return Some((Self::Unix, "unix")),
            Some(("redis" | "valkey", "unix")) => return Some((Self::Unix, "unix")),
            None => (scheme, Self::Server),
            Some((base, "cluster")) => (base, Self::Cluster),
            Some((base, "sentinel")) => (base, Self::Sentinel),
            Some(_) => return None,
        };
        match base {
            "redis" | "valkey" => Some((kind, "redis")),
            "rediss" | "valkeys" => Some((kind, "rediss")),
            _ => None,
        }
    }
}

/// A parsed URL.
pub(crate) struct RedisUrl {
    pub(crate) kind: UrlKind,
    pub(crate) is_tls: bool,
    /// The server, or the first Sentinel, with the credentials and the database of the store.
    pub(crate) info: ConnectionInfo,
    /// All Sentinels.
    pub(crate) sentinels: Vec<ConnectionAddr>,
    /// The Sentinels' name for the master.
    pub(crate) master: String,
    /// Names and decoded values.
    pub(crate) parameters: Vec<(String, String)>,
}

impl RedisUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        if query.contains('@') {
            return Err(invalid_url(
                "has an @ behind its ?: percent-encode a ? of the password as %3F, and an @ as %40",
            ));
        }
        let (scheme, rest) = base.split_once("://").ok_or_else(|| invalid_url("has no ://"))?;
        let known = "redis, rediss, redis+cluster, redis+sentinel or redis+unix";
        let (kind, driver) = UrlKind::from_scheme(scheme)
            .ok_or_else(|| invalid_url(&format!("has the unknown scheme {scheme:?}: use {known}")))?;
        let parameters =
            query.split('&').filter(|pair| !pair.is_empty()).map(parameter).collect::<Result<_, _>>()?;
        let (info, sentinels, master) = match kind {
            UrlKind::Sentinel => sentinels(driver, rest)?,
            _ => (server(&format!("{driver}://{rest}"))?, Vec::new(), String::new()),
        };
        Ok(Self { kind, is_tls: driver == "rediss", info, sentinels, master, parameters })
    }
}

/// Parses `[user:password@]host[:port],host[:port]…/master[/database]`.
fn sentinels(scheme: &str, rest: &str) -> Result<(ConnectionInfo, Vec<ConnectionAddr>, String), Error> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
        None => (String::new(), authority),
    };
    let (master, database) = path.split_once('/').unwrap_or((path, ""));
    if master.is_empty() {
        return Err(invalid_url("does not name the master: write redis+sentinel://host,host/MASTER"));
    }
    let hosts: Vec<String> = hosts.split(',').map(with_port).collect();
    let address = |host: &String| Ok(server(&format!("{scheme}://{host}"))?.addr().clone());
    let addresses = hosts.iter().map(address).collect::<Result<_, Error>>()?;
    let first = hosts.first().map_or("", String::as_str);
    let info = server(&format!("{scheme}://{credentials}{first}/{database}"))?;
    Ok((info, addresses, decode(master)?))
}

fn with_port(host: &str) -> String {
    let name_end = host.rfind(']').map_or(0, |end| end + 1);
    let has_port = host[name_end..].contains(':');
    if has_port { host.to_owned() } else { format!("{host}:{SENTINEL_PORT}") }
}

fn server(url: &str) -> Result<ConnectionInfo, Error> {
    url.into_connection_info().map_err(|error| {
        let reason = error.detail().map_or_else(String::new, |detail| format!(" ({detail})"));
        invalid_url(&format!(
            "is not valid{reason}: write redis://[user:password@]host[:port][/database], with special characters \
             of the password percent-encoded"
        ))
    })
}

fn parameter(pair: &str) -> Result<(String, String), Error> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    Ok((name.to_owned(), decode(value)?))
}

/// Decodes percent-encoding.
fn decode(text: &str) -> Result<String, Error> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        let byte = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.ok_or_else(|| invalid_url("has a % that two hexadecimal digits do not follow"))?);
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).map_err(|_| invalid_url("is not UTF-8"))
}

pub(crate) fn invalid_url(what: &str) -> Error {
    Error::Invalid(format!("the Redis URL {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        let Err(error) = RedisUrl::parse(url) else { panic!("{url} is accepted") };
        let refusal = error.to_string();
        assert!(!refusal.contains("hunter2"), "{refusal}");
        refusal
    }

    #[test]
    fn knows_its_schemes() {
        for url in [
            "redis://h",
            "rediss://h",
            "valkey://h",
            "redis+cluster://h",
            "rediss+sentinel://h/m",
            "unix:///s",
        ] {
            assert!(is_redis_url(url), "{url}");
        }
        for url in ["postgres://h", "redis", "redis+ssh://h", "http+unix://h"] {
            assert!(!is_redis_url(url), "{url}");
        }
    }

    #[test]
    fn sentinels_have_their_own_port_and_the_master_a_database() {
        let parts = RedisUrl::parse("redis+sentinel://me:p%40ss@a,b:7000,[::1]/main/3?x=%2Ftmp").unwrap();
        let addresses: Vec<String> = parts.sentinels.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["a:26379", "b:7000", "::1:26379"]);
        let settings = parts.info.redis_settings();
        assert_eq!((settings.username(), settings.password(), settings.db()), (Some("me"), Some("p@ss"), 3));
        assert_eq!((parts.master.as_str(), parts.parameters), ("main", vec![("x".into(), "/tmp".into())]));
    }

    #[test]
    fn refusals_name_the_fault_and_no_secret() {
        assert!(refusal("redis+sentinel://:hunter2@a,b").contains("does not name the master"));
        assert!(refusal("redis://:hunter?hunter2@h").contains("%3F"));
        assert!(refusal("redis+ssh://:hunter2@h").contains("unknown scheme \"redis+ssh\""));
        assert!(refusal("redis://h?x=%4").contains("hexadecimal"));
        assert!(refusal("redis://:hunter2@h/one").contains("[/database]"));
    }
}
