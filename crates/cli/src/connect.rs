//! From settings to a store.

use std::path::Path;

use tidemill::{Connector, Mill};

use crate::config::Settings;
use crate::failure::Complaint;

/// What it means if there is no database file yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It is made.
    IsMade,
    /// Whoever wants to look at a store should not be shown an empty one made on the spot.
    IsAnError,
}

/// Opens the store.
pub(crate) async fn open(settings: &Settings, absent: Absent) -> anyhow::Result<Mill> {
    let connector = connector(settings)?;
    if absent == Absent::IsAnError {
        check_file(&settings.store.url)?;
    }
    Ok(connector.connect().await?)
}

/// Prepares a connection with everything the settings say.
pub(crate) fn connector(settings: &Settings) -> anyhow::Result<Connector> {
    let mut connector = tidemill::connector(&settings.store.url)?.limits(settings.limits).source("cli");
    if let Some(namespace) = &settings.namespace {
        connector = connector.namespace(namespace.clone())?;
    }
    for rule in &settings.groups {
        connector = connector.group(rule.queue.clone(), &rule.group)?;
    }
    Ok(connector)
}

fn check_file(url: &str) -> Result<(), Complaint> {
    match sqlite_file(url) {
        Some(":memory:") => {
            Err(Complaint::wrong_use("a store in memory is empty: no other command can see it")
                .hint("name a file, as in --store sqlite:tidemill.db"))
        }
        Some(file) if !Path::new(file).exists() => Err(Complaint::failed(format!(
            "there is no store at {file}"
        ))
        .hint("name the one you mean with --store, or make one with `tidemill enqueue` or `tidemill dev`")),
        _ => Ok(()),
    }
}

/// The file a SQLite URL names.
fn sqlite_file(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("sqlite:")?;
    let path = rest.split_once('?').map_or(rest, |(path, _)| path);
    Some(path.strip_prefix("//").unwrap_or(path))
}

/// The store in a few words, without a password.
pub(crate) fn describe(url: &str) -> String {
    match sqlite_file(url) {
        Some(":memory:") => "SQLite in memory".to_owned(),
        Some(file) => format!("SQLite file {file}"),
        None => {
            let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
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
