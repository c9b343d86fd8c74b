//! Damaged keys: keys of the wrong type, written by another program. Errors name them, they do not
//! stop work on other keys, and `tidemill doctor` lists them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use redis::{Cmd, Pipeline, RedisError};
use tidemill_core::Error;
use tidemill_core::store::{Finding, Severity};

use crate::connection::Connections;
use crate::connection::keys::{FLEET_SHARD, RUN_KEY_PREFIXES};
use crate::connection::reply::text;
use crate::error::{classify, is_denied};
use crate::store::RedisStore;

/// How many keys of one command are checked to find the damaged one.
const MAX_CHECKED_KEYS: usize = 256;

/// How many keys one round trip checks.
const KEYS_PER_CALL: usize = 1_000;

/// How many damaged keys are remembered, so that each is logged once.
const MAX_LOGGED_KEYS: usize = 1_000;

/// The types of keys with a fixed name.
const KEY_TYPES: [(&str, &str); 22] = [
    ("jobs", "hash"),
    ("queues", "set"),
    ("waiters", "zset"),
    ("notices", "hash"),
    ("errands", "zset"),
    ("keyed", "hash"),
    ("reserved", "hash"),
    ("released", "zset"),
    ("timers", "zset"),
    ("runs", "zset"),
    ("runs-ended", "zset"),
    ("workflows", "set"),
    ("cluster:lifetime_connections", "hash"),
    ("cluster:active_connections", "hash"),
    ("fleet:places", "hash"),
    ("fleet:counts", "hash"),
    ("fleet:members", "zset"),
    ("fleet:stale", "zset"),
    ("fleet:grace", "zset"),
    ("fleet:sessions", "zset"),
    ("fleet:ends", "zset"),
    ("fleet:lines", "zset"),
];

/// The types of other keys, by prefix.
const KEY_PREFIX_TYPES: [(&str, &str); 23] = [
    ("job:", "string"),
    ("receipt:", "string"),
    ("waits:", "hash"),
    ("key:", "string"),
    ("instances-", "string"),
    ("events-", "stream"),
    ("seen-", "zset"),
    ("timers-", "zset"),
    ("runs:", "zset"),
    ("runs-ended:", "zset"),
    ("run-key:", "string"),
    ("effects:", "list"),
    ("worker:cmd:", "string"),
    ("worker:", "hash"),
    ("fleet:live:", "zset"),
    ("fleet:leaving:", "zset"),
    ("fleet:free:", "zset"),
    ("fleet:limits:", "set"),
    ("fleet:session:", "hash"),
    ("fleet:held:", "zset"),
    ("fleet:line:", "zset"),
    ("fleet:asked:", "zset"),
    ("fleet:ticket:", "string"),
];

/// The expected type of a key, by its name after the namespace; `None` if it is not checked.
fn expected_type(name: &str) -> Option<&'static str> {
    let known = KEY_TYPES.iter().find(|(known, _)| *known == name);
    let family = KEY_PREFIX_TYPES.iter().find(|(family, _)| name.starts_with(family));
    known.or(family).map(|(_, kind)| *kind).or_else(|| expected_queue_type(name))
}

fn expected_queue_type(name: &str) -> Option<&'static str> {
    let (rest, own) = match name.split_once(':')? {
        ("stream" | "workflow", rest) => (rest, "stream"),
        ("queue", rest) => (rest, "list"),
        _ => return None,
    };
    if rest.contains(":lock:") {
        return Some("string");
    }
    if rest.contains(":taken:") {
        return Some("list");
    }
    Some(match rest.rsplit_once(':').map_or("", |(_, part)| part) {
        "scheduled" | "blocked" | "purged" | "takers" => "zset",
        "ready" if rest.ends_with(":purged:ready") => "list",
        "dlq" => "stream",
        "paused" => "string",
        "cancelled" | "leases" | "running" | "untracked" | "dropped" => "hash",
        _ => own,
    })
}

/// A key of the wrong type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DamagedKey {
    pub(crate) key: String,
    found: String,
    expected: &'static str,
}

impl DamagedKey {
    fn quoted(&self) -> String {
        format!("`{}`", self.key)
    }
}

impl std::fmt::Display for DamagedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, found, expected } = self;
        write!(f, "`{key}` holds a {found} instead of a {expected}")
    }
}

impl Connections {
    /// The damaged ones among `keys`.
    pub(crate) async fn find_damaged(
        &self,
        shard: u16,
        keys: Vec<String>,
    ) -> Result<Vec<DamagedKey>, RedisError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut batch = Pipeline::new();
        keys.iter().for_each(|key| {
            batch.cmd("TYPE").arg(key);
        });
        let replies = self.node(shard).pipeline(&batch).await?;
        let prefix = self.keys().prefix(shard);
        let damaged_key = |(key, result)| {
            let (key, found): (String, String) = (key, text(result)?);
            let expected = expected_type(key.strip_prefix(prefix)?)?;
            (found != "none" && found != expected).then_some(DamagedKey { key, found, expected })
        };
        Ok(keys.into_iter().zip(replies).filter_map(damaged_key).collect())
    }

    /// The error with the name of the damaged key, if there is one: the server does not name it.
    pub(crate) async fn explain_error<'a>(
        &self,
        shard: u16,
        commands: impl Iterator<Item = &'a Cmd> + Send,
        error: RedisError,
    ) -> RedisError {
        if is_denied(&error) {
            return self.explain_denial(shard, error).await;
        }
        if !error.to_string().contains("WRONGTYPE") {
            return error;
        }
        let prefix = self.keys().prefix(shard);
        let mut keys: Vec<String> = commands.flat_map(|command| keys_in(command, prefix)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.truncate(MAX_CHECKED_KEYS);
        match self.find_damaged(shard, keys).await {
            Ok(damaged) if !damaged.is_empty() => damage_error(&damaged),
            _ => error,
        }
    }
}

fn keys_in(command: &Cmd, prefix: &str) -> Vec<String> {
    let key = |arg| match arg {
        redis::Arg::Simple(bytes) => {
            let word = std::str::from_utf8(bytes).ok()?;
            (word.len() < 1024 && word.starts_with(prefix)).then(|| word.to_owned())
        }
        _ => None,
    };
    command.args_iter().filter_map(key).collect()
}

/// Prefix of an error about damaged keys.
pub(crate) const DAMAGED_PREFIX: &str = "a key holds something else than it should";

fn damage_error(damaged: &[DamagedKey]) -> RedisError {
    let keys: Vec<String> = damaged.iter().map(ToString::to_string).collect();
    RedisError::from((redis::ErrorKind::Extension, DAMAGED_PREFIX, keys.join(", ")))
}

/// The key in a message about a damaged key.
fn key_in_message(what: &str) -> &str {
    let before = what.split(" holds ").next().unwrap_or(what);
    before.rsplit(' ').next().unwrap_or(before).trim_matches('`')
}

/// Whether one damaged key caused the error. Other causes of `Unsuitable` concern all queues.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Unsuitable(what) if what.contains(" holds "))
}

/// Keys for which a warning has been logged.
#[derive(Debug, Default)]
pub(crate) struct LoggedDamage(Mutex<HashSet<String>>);

impl LoggedDamage {
    /// Logs a damaged key, once.
    pub(crate) fn log_once(&self, doing: &str, what: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_LOGGED_KEYS && known.insert(key_in_message(what).to_owned()) {
            tracing::warn!("{doing}: {what}; it is skipped, and `tidemill doctor` lists damaged keys");
        }
    }
}

impl RedisStore {
    /// The result for one queue of several, or the default if its keys are damaged: others must go
    /// on.
    pub(crate) fn unless_damaged<T: Default>(
        &self,
        doing: &str,
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        match result {
            Err(error) if is_damage(&error) => {
                self.logged_damage.log_once(doing, &error.to_string());
                Ok(T::default())
            }
            result => result,
        }
    }

    /// Every damaged key that can be found without scanning all keys, with its shard.
    pub(super) async fn damaged_keys(&self) -> Result<Vec<(u16, DamagedKey)>, Error> {
        let mut damaged = Vec::new();
        for shard in 0..self.keys.shards() {
            let prefix = self.keys.prefix(shard);
            let names = KEY_TYPES.iter().map(|(name, _)| format!("{prefix}{name}")).collect();
            damaged.extend(self.damaged_among(shard, names).await?);
            let queues =
                self.unless_damaged("checking for damaged keys", self.registered_queues(shard).await)?;
            let of_queues = queues.iter().flat_map(|queue| self.keys.queue_keys(shard, queue)).collect();
            damaged.extend(self.damaged_among(shard, of_queues).await?);
            damaged.extend(self.damaged_among(shard, self.keys_of_runs(shard).await?).await?);
        }
        damaged.extend(self.damaged_among(FLEET_SHARD, self.keys_of_fleet().await?).await?);
        Ok(damaged)
    }

    async fn damaged_among(&self, shard: u16, keys: Vec<String>) -> Result<Vec<(u16, DamagedKey)>, Error> {
        let mut found = Vec::new();
        for part in keys.chunks(KEYS_PER_CALL) {
            let damaged = self
                .connections
                .find_damaged(shard, part.to_vec())
                .await
                .map_err(|error| classify("TYPE", error))?;
            found.extend(damaged.into_iter().map(|damaged_key| (shard, damaged_key)));
        }
        Ok(found)
    }

    /// Findings about damaged keys, with advice.
    pub(crate) async fn damage_findings(&self) -> Result<Vec<Finding>, Error> {
        let damaged = self.damaged_keys().await?;
        let is_listed =
            |problem: &str| damaged.iter().any(|(_, damaged_key)| problem.contains(&damaged_key.quoted()));
        let mut findings = Vec::new();
        for info in self.queue_infos().await? {
            for problem in info.problems.iter().filter(|problem| !is_listed(problem)) {
                findings.push(Finding::new(Severity::Bad, format!("queue {}", info.queue), problem));
            }
        }
        for (shard, damaged_key) in &damaged {
            let message = format!("{damaged_key}: {}", self.advice(*shard, damaged_key));
            findings.push(Finding::new(Severity::Bad, "damaged key", message));
        }
        findings.extend(self.never_due().await?);
        Ok(findings)
    }

    fn advice(&self, shard: u16, damaged_key: &DamagedKey) -> &'static str {
        if self.belongs_to_run(shard, damaged_key) {
            return "restore it from a backup; `tidemill doctor --fix` leaves it, because the run would lose what it has done";
        }
        "`tidemill doctor --fix` renames it, and it is made anew"
    }

    /// Whether the key belongs to a run: it could not be recreated.
    pub(super) fn belongs_to_run(&self, shard: u16, damaged_key: &DamagedKey) -> bool {
        let name = damaged_key.key.strip_prefix(self.keys.prefix(shard)).unwrap_or_default();
        RUN_KEY_PREFIXES.iter().any(|family| name.starts_with(family))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_key_says_what_it_holds() {
        for (name, kind) in [
            ("stream:mail", "stream"),
            ("stream:mail:scheduled", "zset"),
            ("workflow:order:eu", "stream"),
            ("workflow:order:dlq", "stream"),
            ("queue:mail", "list"),
            ("queue:mail:paused", "string"),
            ("queue:mail:lock:a:running", "string"),
            ("queue:mail:running", "hash"),
            ("queue:mail:purged:ready", "list"),
            ("queue:mail:takers", "zset"),
            ("queue:mail:taken:host:1:0:7", "list"),
            ("worker:chromium:a", "hash"),
            ("worker:cmd:chromium:a", "string"),
            ("fleet:live:chromium:cdp", "zset"),
            ("fleet:limits:chromium:cdp", "set"),
            ("stream:ready", "stream"),
            ("jobs", "hash"),
            ("job:a", "string"),
            ("timers-run:7", "zset"),
        ] {
            assert_eq!(expected_type(name), Some(kind), "{name}");
        }
        assert_eq!(expected_type("somebody:else"), None);
    }

    #[test]
    fn a_complaint_is_about_a_key_whoever_has_it() {
        let said =
            ["ns:stream:q holds a string instead of a stream", "XPENDING: `ns:stream:q` holds a string"];
        assert_eq!(said.map(key_in_message), ["ns:stream:q"; 2]);
    }
}
