//! Damaged keys: those that hold something else than they should, because another program wrote them. Errors name them, one
//! does not stop the work on others, and `tidemill doctor` lists them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use redis::{Cmd, Pipeline, RedisError};
use tidemill_core::store::{Finding, Severity};
use tidemill_core::{Clock as _, Error};

use crate::connection::Link;
use crate::connection::keys::{FLEET_SHARD, OF_RUNS};
use crate::connection::reply::text;
use crate::error::{classify, is_denied};
use crate::store::RedisStore;

/// How many keys of one command are looked at to find out which is damaged.
const KEYS_EXPLAINED: usize = 256;

/// How many keys one trip asks for.
const KEYS_ASKED: usize = 1_000;

/// How many complaints are remembered, so that each is logged once.
const COMPLAINTS: usize = 1_000;

/// Keys with one name.
const NAMES: [(&str, &str); 22] = [
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

/// How the names of other keys begin.
const FAMILIES: [(&str, &str); 23] = [
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

/// What a key should hold, by its name behind the prefix; `None` if it is none of those that can be damaged.
fn kind_of(name: &str) -> Option<&'static str> {
    let known = NAMES.iter().find(|(known, _)| *known == name);
    let family = FAMILIES.iter().find(|(family, _)| name.starts_with(family));
    known.or(family).map(|(_, kind)| *kind).or_else(|| kind_of_queue(name))
}

fn kind_of_queue(name: &str) -> Option<&'static str> {
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

/// A key that holds something else than it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) key: String,
    found: String,
    expected: &'static str,
}

impl Damage {
    fn quoted(&self) -> String {
        format!("`{}`", self.key)
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, found, expected } = self;
        write!(f, "`{key}` holds a {found} instead of a {expected}")
    }
}

impl Link {
    /// Those of `keys` that hold something else than they should.
    pub(crate) async fn damaged(&self, shard: u16, keys: Vec<String>) -> Result<Vec<Damage>, RedisError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut batch = Pipeline::new();
        keys.iter().for_each(|key| {
            batch.cmd("TYPE").arg(key);
        });
        let answers = self.node(shard).pipeline(&batch).await?;
        let prefix = self.keys().prefix(shard);
        let damage = |(key, answer)| {
            let (key, found): (String, String) = (key, text(answer)?);
            let expected = kind_of(key.strip_prefix(prefix)?)?;
            (found != "none" && found != expected).then_some(Damage { key, found, expected })
        };
        Ok(keys.into_iter().zip(answers).filter_map(damage).collect())
    }

    /// An error with the name of the damaged key, if one is to blame: the server does not say which.
    pub(crate) async fn explained<'a>(
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
        keys.truncate(KEYS_EXPLAINED);
        match self.damaged(shard, keys).await {
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

/// What an error about damaged keys begins with.
pub(crate) const DAMAGED: &str = "a key holds something else than it should";

fn damage_error(damaged: &[Damage]) -> RedisError {
    let keys: Vec<String> = damaged.iter().map(ToString::to_string).collect();
    RedisError::from((redis::ErrorKind::Extension, DAMAGED, keys.join(", ")))
}

/// The key that something is said of.
fn key_of(what: &str) -> &str {
    let before = what.split(" holds ").next().unwrap_or(what);
    before.rsplit(' ').next().unwrap_or(before).trim_matches('`')
}

/// Whether one damaged key is to blame. Other reasons for which a store is unsuitable concern all queues.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Unsuitable(what) if what.contains(" holds "))
}

/// Keys about which a warning has been logged.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<HashSet<String>>);

impl Complaints {
    /// Logs what is wrong with a key, once.
    pub(crate) fn once(&self, doing: &str, what: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < COMPLAINTS && known.insert(key_of(what).to_owned()) {
            tracing::warn!("{doing}: {what}; it is passed over, and `tidemill doctor` lists what is damaged");
        }
    }
}

impl RedisStore {
    /// What was asked of one queue of several, or nothing if its keys are damaged: the others must not wait for it.
    pub(crate) fn unless_damaged<T: Default>(
        &self,
        doing: &str,
        answer: Result<T, Error>,
    ) -> Result<T, Error> {
        match answer {
            Err(error) if is_damage(&error) => {
                self.complaints.once(doing, &error.to_string());
                Ok(T::default())
            }
            answer => answer,
        }
    }

    /// Every damaged key that can be found without a walk over all keys, with its shard.
    async fn damaged_keys(&self) -> Result<Vec<(u16, Damage)>, Error> {
        let mut damaged = Vec::new();
        for shard in 0..self.keys.shards() {
            let prefix = self.keys.prefix(shard);
            let names = NAMES.iter().map(|(name, _)| format!("{prefix}{name}")).collect();
            damaged.extend(self.damaged_among(shard, names).await?);
            let queues =
                self.unless_damaged("looking for damaged keys", self.names_of_queues(shard).await)?;
            let of_queues = queues.iter().flat_map(|queue| self.keys.of_queue(shard, queue)).collect();
            damaged.extend(self.damaged_among(shard, of_queues).await?);
            damaged.extend(self.damaged_among(shard, self.keys_of_runs(shard).await?).await?);
        }
        damaged.extend(self.damaged_among(FLEET_SHARD, self.keys_of_fleet().await?).await?);
        Ok(damaged)
    }

    async fn damaged_among(&self, shard: u16, keys: Vec<String>) -> Result<Vec<(u16, Damage)>, Error> {
        let mut found = Vec::new();
        for part in keys.chunks(KEYS_ASKED) {
            let damaged =
                self.link.damaged(shard, part.to_vec()).await.map_err(|error| classify("TYPE", error))?;
            found.extend(damaged.into_iter().map(|damage| (shard, damage)));
        }
        Ok(found)
    }

    /// What is damaged, and what to do about it.
    pub(crate) async fn damage(&self) -> Result<Vec<Finding>, Error> {
        let damaged = self.damaged_keys().await?;
        let is_listed = |problem: &str| damaged.iter().any(|(_, damage)| problem.contains(&damage.quoted()));
        let mut findings = Vec::new();
        for info in self.known_queues().await? {
            for problem in info.problems.iter().filter(|problem| !is_listed(problem)) {
                findings.push(Finding::new(Severity::Bad, format!("queue {}", info.queue), problem));
            }
        }
        for (shard, damage) in &damaged {
            let message = format!("{damage}: {}", self.advice(*shard, damage));
            findings.push(Finding::new(Severity::Bad, "damaged key", message));
        }
        findings.extend(self.never_due().await?);
        Ok(findings)
    }

    fn advice(&self, shard: u16, damage: &Damage) -> &'static str {
        if self.is_of_run(shard, damage) {
            return "restore it from a backup; `tidemill doctor --fix` leaves it, because the run would lose what it has done";
        }
        "`tidemill doctor --fix` renames it, and it is made anew"
    }

    /// Whether the key is a run's own: nobody could make it anew.
    fn is_of_run(&self, shard: u16, damage: &Damage) -> bool {
        let name = damage.key.strip_prefix(self.keys.prefix(shard)).unwrap_or_default();
        OF_RUNS.iter().any(|family| name.starts_with(family))
    }

    /// Renames damaged keys, so that they can be looked at and are made anew when they are needed; restores lost positions.
    pub(crate) async fn fix_damage(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        let damaged = self.damaged_keys().await?.into_iter();
        for (shard, damage) in damaged.filter(|(shard, damage)| !self.is_of_run(*shard, damage)) {
            let aside = format!("{}:damaged-{}", damage.key, self.clock.now().0);
            let rename = redis::cmd("RENAME").arg(&damage.key).arg(&aside).take();
            self.link.query::<()>(shard, &rename).await?;
            findings.push(Finding::new(
                Severity::Warning,
                "damaged key",
                format!("{damage}: renamed to `{aside}`"),
            ));
        }
        for info in self.known_queues().await?.into_iter().filter(|info| !info.problems.is_empty()) {
            if info.paused {
                self.pause_queue(&info.queue).await?;
                let message = format!("the position of the paused queue {} is restored", info.queue);
                findings.push(Finding::new(Severity::Warning, format!("queue {}", info.queue), message));
            }
        }
        Ok(findings)
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
            assert_eq!(kind_of(name), Some(kind), "{name}");
        }
        assert_eq!(kind_of("somebody:else"), None);
    }

    #[test]
    fn a_complaint_is_about_a_key_whoever_has_it() {
        let said =
            ["ns:stream:q holds a string instead of a stream", "XPENDING: `ns:stream:q` holds a string"];
        assert_eq!(said.map(key_of), ["ns:stream:q"; 2]);
    }
}
