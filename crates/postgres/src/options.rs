//! Where the database is and how it is used. The URL holds a password, so nothing here shows it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::wake::PollInterval;
use tidemill_core::wake::Transport;
use tokio_postgres::config::{Host, SslMode};

/// How many connections a process opens at most: more than the cores of most database servers only makes
/// statements wait for one another there instead of here.
const CONNECTIONS: usize = 8;

/// The schema that holds everything.
const SCHEMA: &str = "tidemill";

/// How often an idle queue is looked at.
const PACE: PollInterval = PollInterval::new(Duration::from_secs(1), Duration::from_secs(4));

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the database is and how it is used.
#[derive(Clone)]
pub struct Options {
    /// `postgres://user:password@host:port/database?sslmode=require`. A secret. Beside the parameters that
    /// every PostgreSQL client knows it may have `schema`, `connections`, `listen` and `sslrootcert`.
    pub url: String,
    /// The schema that holds everything: lower-case letters, digits and underscores.
    pub schema: String,
    /// How many connections to open at most, beside one for wake-ups.
    pub connections: usize,
    /// How often an idle queue is looked at although nothing has rung: a lost wake-up costs this much.
    pub pace: PollInterval,
    /// A second URL of the same database that does not lead through a pooler, for LISTEN. A secret as well. Without it
    /// LISTEN uses `url`, unless that leads through a pooler: then work from other processes is found by polling.
    pub listen: Option<String>,
    /// Who carries wake-ups between processes; LISTEN and NOTIFY, if nobody else.
    pub courier: Option<Arc<dyn Transport>>,
}

impl Options {
    /// Reads and checks a URL. The error never quotes it.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let mut options = Self {
            url: url.to_owned(),
            schema: SCHEMA.to_owned(),
            connections: CONNECTIONS,
            pace: PACE,
            listen: None,
            courier: None,
        };
        let target = Target::read(&options)?;
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

    /// Checks what has been set by hand.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        let starts = |c: u8| c.is_ascii_lowercase() || c == b'_';
        // 48, so that the names derived from it stay within PostgreSQL's 63.
        let valid = self.schema.len() <= 48
            && self.schema.bytes().all(word)
            && self.schema.bytes().next().is_some_and(starts)
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
            Some(options) => Target::read(&options).map(drop),
            None => Ok(()),
        }
    }

    /// The same store by the URL that is for LISTEN, if there is one.
    pub(crate) fn for_listening(&self) -> Option<Self> {
        let url = self.listen.clone()?;
        Some(Self { url, listen: None, ..self.clone() })
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Options");
        if let Ok(target) = Target::read(self) {
            shown.field("server", &target.place());
        }
        shown.field("schema", &self.schema).field("connections", &self.connections).finish_non_exhaustive()
    }
}

/// What a URL says, taken apart.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) config: tokio_postgres::Config,
    pub(crate) root_certificates: Option<PathBuf>,
    schema: Option<String>,
    connections: Option<usize>,
    listen: Option<String>,
}

impl Target {
    pub(crate) fn read(options: &Options) -> Result<Self, Error> {
        let url = &options.url;
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(not_a_url());
        }
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
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
                // Certificates are always verified here, so these ask for nothing more.
                ("sslmode", "verify-full" | "verify-ca") => rest.push("sslmode=require"),
                _ => rest.push(pair),
            }
        }
        target.config = format!("{place}?{}", rest.join("&")).parse().map_err(|_| not_a_url())?;
        target.adjust();
        Ok(target)
    }

    /// Settings that make a dead server known within half a minute, on an idle connection too.
    fn adjust(&mut self) {
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

    /// Whether the connection must be encrypted. `prefer`, the default, connects in the clear: it would
    /// promise nothing, and a server's home-made certificate would have to be trusted blindly.
    pub(crate) fn encrypted(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }

    /// The server and the database, without anything secret.
    pub(crate) fn place(&self) -> String {
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

/// The URL in the parameter `listen`, as it is or with its special characters escaped. It may contain a `?`, but a `&`
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

/// Says what a URL should look like, and nothing of what it was: any part of it may be the password.
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
        let options = Options::parse(URL).unwrap();
        assert_eq!((options.schema.as_str(), options.connections), ("mill", 3));
        let target = Target::read(&options).unwrap();
        assert_eq!(target.place(), "db.example:6000/work");
        assert!(target.encrypted());
    }

    #[test]
    fn the_url_for_listening_is_read_as_it_is_or_escaped() {
        let direct = "postgres://me:p%40ss@db:5432/work?sslmode=require";
        let escaped = "postgres%3A%2F%2Fme%3Ap%2540ss%40db%3A5432%2Fwork%3Fsslmode%3Drequire";
        for listen in [direct, escaped] {
            let options =
                Options::parse(&format!("postgres://pool/work?listen={listen}&schema=mill")).unwrap();
            assert_eq!(options.listen.as_deref(), Some(direct));
            let direct = options.for_listening().unwrap();
            assert_eq!(Target::read(&direct).unwrap().place(), "db:5432/work");
            assert_eq!(direct.schema, "mill");
        }
        for bad in ["redis://h", "%zz", "postgres://h/d?s3cret=1"] {
            let url = format!("postgres://pool/work?listen={bad}");
            assert!(matches!(Options::parse(&url), Err(Error::Invalid(_))), "{bad}");
        }
    }

    #[test]
    fn the_password_is_never_shown() {
        assert!(!format!("{:?}", Options::parse(URL).unwrap()).contains("s3cret"));
        let listen = Options::parse("postgres://h/d?listen=postgres://me:s3cret@h/d").unwrap();
        assert!(!format!("{listen:?}").contains("s3cret"));
        let bad = [
            "postgres://me:s3cret@h:port/x",
            "http://me:s3cret@h",
            "postgres://h/d?s3cret=1",
            "postgres://h/d?listen=http://me:s3cret@h",
        ];
        for bad in bad {
            let error = Options::parse(bad).unwrap_err();
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
            assert!(matches!(Options::parse(&url), Err(Error::Invalid(_))), "{bad:?}");
        }
    }
}
