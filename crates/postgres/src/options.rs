//! Where the database is and how it is used. The URL contains a password, so nothing here shows it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::wake::{PollInterval, Transport};
use tokio_postgres::config::{Host, SslMode};

/// How many connections a process opens at most. More connections than the server has cores only
/// make statements wait for one another in the server instead of here.
const DEFAULT_CONNECTIONS: usize = 8;

/// The schema with all objects of the store.
const DEFAULT_SCHEMA: &str = "tidemill";

/// How often an idle queue is polled.
const DEFAULT_POLL_INTERVAL: PollInterval = PollInterval::new(Duration::from_secs(1), Duration::from_secs(4));

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the database is and how it is used.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?sslmode=require`. A secret. In addition to the
    /// parameters of every PostgreSQL client it may have `schema`, `connections`, `listen` and
    /// `sslrootcert`.
    pub url: String,
    /// The schema with all objects of the store: lower-case letters, digits and underscores.
    pub schema: String,
    /// How many connections to open at most, in addition to one for wake-ups.
    pub connections: usize,
    /// How often an idle queue is polled without a wake-up. A lost wake-up delays a job by this
    /// much.
    pub poll_interval: PollInterval,
    /// A second URL of the same database that does not go through a pooler, for LISTEN. A secret as
    /// well. Without it LISTEN uses `url`, unless that goes through a pooler: then work from other
    /// processes is found by polling.
    pub listen: Option<String>,
    /// Sends wake-ups to other processes. The default is LISTEN/NOTIFY.
    pub transport: Option<Arc<dyn Transport>>,
}

impl PostgresOptions {
    /// Parses and checks a URL. The error never quotes it.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let mut options = Self {
            url: url.to_owned(),
            schema: DEFAULT_SCHEMA.to_owned(),
            connections: DEFAULT_CONNECTIONS,
            poll_interval: DEFAULT_POLL_INTERVAL,
            listen: None,
            transport: None,
        };
        let target = ConnectTarget::parse(&options)?;
        if let Some(schema) = target.schema {
            options.schema = schema;
        }
        if let Some(connections) = target.connections {
            options.connections = connections;
        }
        options.listen = target.listen;
        options.check()?;
        Ok(options)
    }

    /// Checks options that were set by hand.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        let allowed_first = |c: u8| c.is_ascii_lowercase() || c == b'_';
        // 48, so that the names derived from it stay within PostgreSQL's limit of 63.
        let valid = self.schema.len() <= 48
            && self.schema.bytes().all(allowed)
            && self.schema.bytes().next().is_some_and(allowed_first)
            && !self.schema.starts_with("pg_");
        if !valid {
            let shown: String = self.schema.chars().take(64).collect();
            return Err(Error::Invalid(format!(
                "schema {shown:?} is not valid: 1 to 48 of the characters a-z 0-9 _, not starting with a digit or pg_"
            )));
        }
        if self.connections == 0 {
            return Err(Error::Invalid("connections must be at least 1".into()));
        }
        match self.for_listening() {
            Some(options) => ConnectTarget::parse(&options).map(drop),
            None => Ok(()),
        }
    }

    /// The same options with the URL for LISTEN, if there is one.
    pub(crate) fn for_listening(&self) -> Option<Self> {
        let url = self.listen.clone()?;
        Some(Self { url, listen: None, ..self.clone() })
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PostgresOptions");
        if let Ok(target) = ConnectTarget::parse(self) {
            shown.field("server", &target.address());
        }
        shown.field("schema", &self.schema).field("connections", &self.connections).finish_non_exhaustive()
    }
}

/// The parts of a URL.
#[derive(Clone)]
pub(crate) struct ConnectTarget {
    pub(crate) config: tokio_postgres::Config,
    pub(crate) root_certificates: Option<PathBuf>,
    schema: Option<String>,
    connections: Option<usize>,
    listen: Option<String>,
}

impl ConnectTarget {
    pub(crate) fn parse(options: &PostgresOptions) -> Result<Self, Error> {
        let url = &options.url;
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(not_a_url());
        }
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let mut target = Self {
            config: tokio_postgres::Config::new(),
            root_certificates: None,
            schema: None,
            connections: None,
            listen: None,
        };
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("schema", value) => target.schema = Some(value.to_owned()),
                ("connections", value) => target.connections = Some(value.parse().map_err(|_| not_a_url())?),
                ("listen", value) => target.listen = Some(listen_url(value)?),
                ("sslrootcert", value) => target.root_certificates = Some(value.into()),
                // Certificates are always verified here, so these modes need nothing more.
                ("sslmode", "verify-full" | "verify-ca") => rest.push("sslmode=require"),
                _ => rest.push(pair),
            }
        }
        target.config = format!("{address}?{}", rest.join("&")).parse().map_err(|_| not_a_url())?;
        target.set_defaults();
        Ok(target)
    }

    /// Sets timeouts with which a dead server is detected within half a minute, on an idle
    /// connection too.
    fn set_defaults(&mut self) {
        let config = &mut self.config;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("tidemill");
        }
        config.keepalives_idle(Duration::from_secs(15)).keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(3);
    }

    /// Whether the connection must be encrypted. `prefer`, the default, connects without
    /// encryption: it would guarantee nothing, and a self-signed certificate would have to be
    /// trusted blindly.
    pub(crate) fn encrypted(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }

    /// The server and the database, without anything secret.
    pub(crate) fn address(&self) -> String {
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => format!("{host}:{port}"),
            #[cfg(unix)]
            Some(Host::Unix(path)) => format!("{} port {port}", path.display()),
            _ => format!("localhost:{port}"),
        };
        match self.config.get_dbname() {
            Some(database) => format!("{host}/{database}"),
            None => host,
        }
    }

    pub(crate) fn user(&self) -> &str {
        self.config.get_user().unwrap_or("(the system's)")
    }
}

/// The URL in the parameter `listen`, as it is or percent-encoded. It may contain a `?`, but a `&`
/// would end it.
fn listen_url(value: &str) -> Result<String, Error> {
    if value.contains("://") {
        return Ok(value.to_owned());
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |digit: Option<u8>| char::from(digit?).to_digit(16);
            let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
                return Err(not_a_url());
            };
            bytes.extend(u8::try_from(high * 16 + low));
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| not_a_url())
}

/// An error that says what a URL should look like. It quotes no_rows, because any part may be the
/// password.
fn not_a_url() -> Error {
    Error::Invalid(
        "the PostgreSQL URL cannot be read; it looks like \
         postgres://user:password@host:5432/database?sslmode=require"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str =
        "postgres://me:s3cret@db.example:6000/work?schema=mill&connections=3&sslmode=verify-full";

    #[test]
    fn own_parameters_are_taken_out_of_the_url() {
        let options = PostgresOptions::parse(URL).unwrap();
        assert_eq!((options.schema.as_str(), options.connections), ("mill", 3));
        let target = ConnectTarget::parse(&options).unwrap();
        assert_eq!(target.address(), "db.example:6000/work");
        assert!(target.encrypted());
    }

    #[test]
    fn the_url_for_listening_is_read_as_it_is_or_escaped() {
        let direct = "postgres://me:p%40ss@db:5432/work?sslmode=require";
        let escaped = "postgres%3A%2F%2Fme%3Ap%2540ss%40db%3A5432%2Fwork%3Fsslmode%3Drequire";
        for listen in [direct, escaped] {
            let options =
                PostgresOptions::parse(&format!("postgres://pool/work?listen={listen}&schema=mill")).unwrap();
            assert_eq!(options.listen.as_deref(), Some(direct));
            let direct = options.for_listening().unwrap();
            assert_eq!(ConnectTarget::parse(&direct).unwrap().address(), "db:5432/work");
            assert_eq!(direct.schema, "mill");
        }
        for bad in ["redis://h", "%zz", "postgres://h/d?s3cret=1"] {
            let url = format!("postgres://pool/work?listen={bad}");
            assert!(matches!(PostgresOptions::parse(&url), Err(Error::Invalid(_))), "{bad}");
        }
    }

    #[test]
    fn the_password_is_never_shown() {
        assert!(!format!("{:?}", PostgresOptions::parse(URL).unwrap()).contains("s3cret"));
        let listen = PostgresOptions::parse("postgres://h/d?listen=postgres://me:s3cret@h/d").unwrap();
        assert!(!format!("{listen:?}").contains("s3cret"));
        let bad = [
            "postgres://me:s3cret@h:port/x",
            "http://me:s3cret@h",
            "postgres://h/d?s3cret=1",
            "postgres://h/d?listen=http://me:s3cret@h",
        ];
        for bad in bad {
            let error = PostgresOptions::parse(bad).unwrap_err();
            assert!(
                !error.full_message().contains("s3cret") && !format!("{error:?}").contains("s3cret"),
                "{error}"
            );
        }
    }

    #[test]
    fn refuses_a_schema_that_is_no_plain_identifier() {
        for bad in ["", "1a", "Mill", "a\"b", "a b", "pg_x", &"x".repeat(49)] {
            let url = format!("postgres://h/d?schema={bad}");
            assert!(matches!(PostgresOptions::parse(&url), Err(Error::Invalid(_))), "{bad:?}");
        }
    }
}
