//! The configuration: flags, then the environment, then `tidemill.toml`, then defaults.

use std::fs;
use std::io::ErrorKind;

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Deserialize;
use tidemill::{Limits, Namespace};

use crate::args::GlobalArgs;
use crate::consumer_group::{GroupRule, InvalidGroup};
use crate::error::CliError;
use crate::output::log::LogFormat;

/// The configuration file, in the current directory.
const CONFIG_FILE: &str = "tidemill.toml";

/// The default store.
const DEFAULT_STORE: &str = "sqlite:tidemill.db";

/// The resolved configuration.
#[derive(Debug)]
pub(crate) struct CliConfig {
    pub(crate) store: StoreSetting,
    pub(crate) wake: Option<WakeSetting>,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) groups: Vec<GroupRule>,
    pub(crate) limits: Limits,
    pub(crate) json: bool,
    pub(crate) log_format: LogFormat,
    pub(crate) verbose: u8,
}

/// The store's URL, which may contain a password, and whether a flag named it.
pub(crate) struct StoreSetting {
    pub(crate) url: String,
    pub(crate) by_flag: bool,
}

/// The transport of wake-ups: a URL, which may contain a password, or a word.
pub(crate) struct WakeSetting(pub(crate) String);

impl std::fmt::Debug for WakeSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.split(':').next().unwrap_or_default())
    }
}

impl std::fmt::Debug for StoreSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.url.split(':').next().unwrap_or_default())
    }
}

/// The contents of the configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    store: Option<String>,
    wake: Option<String>,
    namespace: Option<String>,
    #[serde(default)]
    group: Vec<String>,
    json: Option<bool>,
    max_payload: Option<usize>,
    log_format: Option<String>,
}

impl CliConfig {
    /// Merges the sources. `variable` reads the environment.
    pub(crate) fn resolve(
        flags: GlobalArgs,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        Self::with_file(flags, |name| variable(name).filter(|value| !value.is_empty()), ConfigFile::read()?)
    }

    fn with_file(
        flags: GlobalArgs,
        variable: impl Fn(&str) -> Option<String>,
        file: ConfigFile,
    ) -> anyhow::Result<Self> {
        let by_flag = flags.store.is_some();
        let url = flags.store.or_else(|| variable("TIDEMILL_STORE")).or(file.store);
        let wake = flags.wake.or_else(|| variable("TIDEMILL_WAKE")).or(file.wake);
        let namespace = flags.namespace.or_else(|| variable("TIDEMILL_NAMESPACE")).or(file.namespace);
        let max_payload = match (flags.max_payload, variable("TIDEMILL_MAX_PAYLOAD")) {
            (Some(bytes), _) => Some(bytes),
            (None, Some(bytes)) => Some(bytes.parse().map_err(|_| invalid_max_payload(&bytes))?),
            (None, None) => file.max_payload,
        };
        let log_format = match (flags.log_format, variable("TIDEMILL_LOG_FORMAT").or(file.log_format)) {
            (Some(format), _) => format,
            (None, Some(format)) => {
                LogFormat::from_str(&format, true).map_err(|_| invalid_log_format(&format))?
            }
            (None, None) => LogFormat::default(),
        };
        let json = flags.json
            || variable("TIDEMILL_JSON")
                .map_or(file.json == Some(true), |value| value != "0" && value != "false");
        Ok(Self {
            store: StoreSetting { url: url.unwrap_or_else(|| DEFAULT_STORE.to_owned()), by_flag },
            wake: wake.map(WakeSetting),
            namespace: namespace.as_deref().map(Namespace::new).transpose()?,
            groups: resolve_groups(flags.groups, variable("TIDEMILL_GROUP"), file.group)?,
            limits: Limits { payload: max_payload.unwrap_or(Limits::default().payload) },
            json,
            log_format,
            verbose: flags.verbose,
        })
    }
}

/// The rules of the first source that has any.
fn resolve_groups(
    flags: Vec<GroupRule>,
    variable: Option<String>,
    file: Vec<String>,
) -> Result<Vec<GroupRule>, CliError> {
    if !flags.is_empty() {
        return Ok(flags);
    }
    let rules = variable.map_or(file, |list| list.split(',').map(str::to_owned).collect());
    rules
        .iter()
        .map(|rule| rule.parse().map_err(|error: InvalidGroup| CliError::usage(error.to_string())))
        .collect()
}

fn invalid_max_payload(value: &str) -> CliError {
    CliError::usage(format!("TIDEMILL_MAX_PAYLOAD is {value:?}, which is no number of bytes"))
}

fn invalid_log_format(value: &str) -> CliError {
    CliError::usage(format!("the log format is {value:?}: it can be text or json"))
}

impl ConfigFile {
    fn read() -> anyhow::Result<Self> {
        match fs::read_to_string(CONFIG_FILE) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {CONFIG_FILE}")),
        }
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        // Only the message: `Display` also quotes the line, and a line may contain a password.
        let wrong = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            CliError::usage(format!("{CONFIG_FILE}, line {line}: {}", error.message()))
        };
        Ok(toml::from_str(text).map_err(wrong)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags() -> GlobalArgs {
        GlobalArgs {
            store: None,
            wake: None,
            namespace: None,
            groups: Vec::new(),
            max_payload: None,
            json: false,
            log_format: None,
            verbose: 0,
        }
    }

    fn store(flag: Option<&str>, variable: Option<&str>, file: &str) -> String {
        let flags = GlobalArgs { store: flag.map(str::to_owned), ..flags() };
        let lookup = |name: &str| variable.filter(|_| name == "TIDEMILL_STORE").map(str::to_owned);
        CliConfig::with_file(flags, lookup, ConfigFile::parse(file).unwrap()).unwrap().store.url
    }

    #[test]
    fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
        let file = "store = 'sqlite:file.db'";
        assert_eq!(store(Some("sqlite:flag.db"), Some("sqlite:env.db"), file), "sqlite:flag.db");
        assert_eq!(store(None, Some("sqlite:env.db"), file), "sqlite:env.db");
        assert_eq!(store(None, None, file), "sqlite:file.db");
        assert_eq!(store(None, None, ""), DEFAULT_STORE);
    }

    #[test]
    fn what_wakes_comes_from_a_flag_the_environment_or_the_file() {
        let wake = |flag: Option<&str>, variable: Option<&str>| {
            let flags = GlobalArgs { wake: flag.map(str::to_owned), ..flags() };
            let lookup = |name: &str| variable.filter(|_| name == "TIDEMILL_WAKE").map(str::to_owned);
            let file = ConfigFile::parse("wake = 'redis://:hunter2@file'").unwrap();
            CliConfig::with_file(flags, lookup, file).unwrap()
        };
        assert_eq!(wake(Some("listen"), Some("none")).wake.unwrap().0, "listen");
        assert_eq!(wake(None, Some("none")).wake.unwrap().0, "none");
        assert!(!format!("{:?}", wake(None, None)).contains("hunter2"));
    }

    #[test]
    fn a_mistake_in_the_file_is_named_with_its_line_and_without_what_stands_there() {
        let file = "namespace = 'a:'\nstore = ['redis://u:hunter2@h']\n";
        let error = ConfigFile::parse(file).unwrap_err().to_string();
        assert!(error.starts_with("tidemill.toml, line 2: ") && !error.contains("hunter2"), "{error}");
    }
}
