//! From settings to a store.

use std::path::Path;

use tidemill::{Client, Connector};

use crate::config::Settings;
use crate::failure::Complaint;

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To look at what is there. Nobody wants to be shown an empty store that was made on the spot.
    Look,
    /// To begin something that other processes take up.
    Begin,
    /// To do everything in this process.
    Alone,
}

/// Opens the store.
pub(crate) async fn open(settings: &Settings, purpose: Purpose) -> anyhow::Result<Client> {
    let connector = connector(settings)?;
    match sqlite_file(&settings.store.url) {
        Some(":memory:") if purpose != Purpose::Alone => {
            let complaint = Complaint::wrong_use("a store in memory ends with this command");
            Err(complaint.hint("name a file, as in --store sqlite:tidemill.db"))?
        }
        Some(file) if purpose == Purpose::Look && !Path::new(file).exists() => {
            let complaint = Complaint::failed(format!("there is no store at {file}"));
            Err(complaint.hint(
                "name another with --store, or make this one with `tidemill enqueue` or `tidemill dev`",
            ))?
        }
        _ => Ok(connector.connect().await?),
    }
}

/// Prepares a connection with everything the settings say.
pub(crate) fn connector(settings: &Settings) -> anyhow::Result<Connector> {
    let mut connector = tidemill::connector(&settings.store.url)?.limits(settings.limits).source("cli");
    if let Some(namespace) = &settings.namespace {
        connector = connector.namespace(namespace.clone());
    }
    if let Some(wake) = &settings.wake {
        connector = connector.wake(wake.0.as_str())?;
    }
    for rule in &settings.groups {
        connector = connector.group(rule.queue.clone(), &rule.group)?;
    }
    Ok(connector)
}

/// The file a SQLite URL names.
fn sqlite_file(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("sqlite:")?;
    let path = rest.split_once('?').map_or(rest, |(path, _)| path);
    Some(path.strip_prefix("//").unwrap_or(path))
}

/// The store, or what wakes its workers, in a few words and without a password.
pub(crate) fn describe(url: &str) -> String {
    match sqlite_file(url) {
        Some(":memory:") => "SQLite in memory".to_owned(),
        Some(file) => format!("SQLite file {file}"),
        None => {
            let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
            let place = rest.split(['/', '?']).next().unwrap_or_default();
            let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
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
