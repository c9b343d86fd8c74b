//! Opening the store that the configuration names.

use std::path::Path;

use tidemill::{Client, ClientBuilder};

use crate::config::CliConfig;
use crate::error::CliError;

/// The purpose for which a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To read existing data. A missing SQLite file is an error, because a new one would be empty.
    Inspect,
    /// To enqueue work that other processes run.
    Produce,
    /// To do all work in this process.
    SingleProcess,
}

/// Opens the store.
pub(crate) async fn open(config: &CliConfig, purpose: Purpose) -> anyhow::Result<Client> {
    let builder = client_builder(config)?;
    match sqlite_file(&config.store.url) {
        Some(":memory:") if purpose != Purpose::SingleProcess => {
            let error = CliError::usage("a store in memory ends with this command");
            Err(error.hint("name a file, as in --store sqlite:tidemill.db"))?
        }
        Some(file) if purpose == Purpose::Inspect && !Path::new(file).exists() => {
            let error = CliError::failed(format!("there is no store at {file}"));
            Err(error.hint(
                "name another with --store, or make this one with `tidemill enqueue` or `tidemill dev`",
            ))?
        }
        _ => Ok(builder.connect().await?),
    }
}

/// Builds a client from the configuration, without opening the store.
pub(crate) fn client_builder(config: &CliConfig) -> anyhow::Result<ClientBuilder> {
    let mut builder = tidemill::ClientBuilder::new(&config.store.url).limits(config.limits).source("cli");
    if let Some(namespace) = &config.namespace {
        builder = builder.namespace(namespace.clone());
    }
    if let Some(wake) = &config.wake {
        builder = builder.wake(wake.0.as_str());
    }
    for rule in &config.groups {
        builder = builder.group(rule.queue.clone(), &rule.group);
    }
    builder.check()?;
    Ok(builder)
}

/// The file that a SQLite URL names.
fn sqlite_file(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("sqlite:")?;
    let path = rest.split_once('?').map_or(rest, |(path, _)| path);
    Some(path.strip_prefix("//").unwrap_or(path))
}

/// A short description of the store or of the wake-up transport, without a password.
pub(crate) fn describe(url: &str) -> String {
    match sqlite_file(url) {
        Some(":memory:") => "SQLite in memory".to_owned(),
        Some(file) => format!("SQLite file {file}"),
        None => {
            let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
            let authority = rest.split(['/', '?']).next().unwrap_or_default();
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_never_holds_a_password() {
        assert_eq!(describe("redis://user:hunter2@10.0.0.1:6379/3"), "redis://10.0.0.1:6379");
        assert_eq!(describe("postgres://u:p@ss@db/app?sslmode=require"), "postgres://db");
        assert_eq!(describe("sqlite:///var/app.db?synchronous=normal"), "SQLite file /var/app.db");
    }
}
