//! Permissions of the user of the URL, checked when the store connects.
//!
//! The server checks permissions when a command is queued in a transaction. The transaction is
//! discarded, so nothing runs. This works for users without permission to read ACLs. A script
//! without permission for a command aborts between two writes, so such scripts are never sent.

mod commands;

use std::collections::{BTreeSet, HashMap};

use redis::{Cmd, Pipeline, RedisError, Value};
use tidemill_core::store::{Finding, Severity};
use tidemill_core::{Error, Namespace};

use crate::connection::Node;
use crate::connection::keys::escape_pattern;
use crate::connection::script::Script;
use crate::error::{classify, is_denied};
use crate::options::RedisOptions;

/// The check needs these commands, and so do bulk enqueues.
const TRANSACTIONS: [&str; 3] = ["EXEC", "DISCARD", "MULTI"];

/// A key and a channel of the store, and the ACL rules that grant all of them.
pub(crate) struct AclSample {
    pub(crate) key: String,
    pub(crate) key_rule: String,
    pub(crate) channel: String,
    pub(crate) channel_rule: String,
}

/// The permissions that a user lacks.
#[derive(Debug, Clone, Default)]
pub(crate) struct MissingPermissions {
    user: String,
    needed: Vec<MissingPermission>,
    optional: Vec<(MissingPermission, &'static str)>,
}

/// One missing permission: the command, and the ACL rule that grants it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MissingPermission {
    command: String,
    rule: String,
}

impl MissingPermissions {
    /// Checks the permissions of the store's user on one server.
    pub(crate) async fn check_store(
        node: &Node,
        options: &RedisOptions,
        sample: AclSample,
    ) -> Result<Self, Error> {
        let mut needed = commands::NEEDED.to_vec();
        needed.extend((options.replicas > 0).then_some(commands::REPLICAS));
        needed.extend(options.sentinels.is_some().then_some(commands::SENTINEL));
        needed.extend(commands::CLUSTER.iter().filter(|_| options.cluster));
        Self::check_commands(node, options, (needed, commands::OPTIONAL), sample).await
    }

    /// Checks the permissions for wake-ups on one server.
    pub(crate) async fn check_wake(
        node: &Node,
        options: &RedisOptions,
        sample: AclSample,
    ) -> Result<Self, Error> {
        Self::check_commands(node, options, (commands::WAKE.to_vec(), &[]), sample).await
    }

    async fn check_commands(
        node: &Node,
        options: &RedisOptions,
        (needed, optional): (Vec<&'static str>, &'static [(&'static str, &'static str)]),
        sample: AclSample,
    ) -> Result<Self, Error> {
        let failed = |error| classify("asking for the user's rights", error);
        let user = options.info.redis_settings().username().unwrap_or("default").to_owned();
        let missing = missing_transactions(node).await.map_err(failed)?;
        if !missing.is_empty() {
            return Ok(Self { user, needed: missing, optional: Vec::new() });
        }
        let needed =
            probe_commands(node, &needed, &sample).await.map_err(failed)?.into_iter().flatten().collect();
        let samples: Vec<&str> = optional.iter().map(|(sample, _)| *sample).collect();
        let replies =
            probe_commands(node, &samples, &sample).await.map_err(failed)?.into_iter().zip(optional);
        let optional = replies.filter_map(|(missing, (_, without))| Some((missing?, *without))).collect();
        Ok(Self { user, needed, optional })
    }

    /// Adds the permissions that are missing on another server.
    pub(crate) fn merge(&mut self, other: Self) {
        self.user = other.user;
        self.needed
            .extend(other.needed.into_iter().filter(|new| !self.needed.contains(new)).collect::<Vec<_>>());
        let known = |new: &(MissingPermission, &str)| !self.optional.contains(new);
        self.optional.extend(other.optional.into_iter().filter(known).collect::<Vec<_>>());
    }

    /// Rejects a user who can claim jobs but lacks a permission of a worker, or who cannot even
    /// read.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let may_read = !["GET", "TIME", "EVALSHA"].iter().any(|command| self.lacks(command));
        if may_read && !self.may_work() { Ok(()) } else { self.check_all() }
    }

    /// Rejects a user who lacks any needed permission.
    pub(crate) fn check_all(&self) -> Result<(), Error> {
        if self.needed.is_empty() { Ok(()) } else { Err(Error::Denied(self.describe_needed())) }
    }

    fn may_work(&self) -> bool {
        commands::WORKER_ONLY.iter().any(|command| !self.lacks(command))
    }

    /// Whether blocked reads can be ended early.
    pub(crate) fn may_unblock(&self) -> bool {
        !self.optional.iter().any(|(missing, _)| missing.command.starts_with("CLIENT "))
    }

    fn lacks(&self, command: &str) -> bool {
        self.needed.iter().any(|missing| missing.command == command)
    }

    fn describe_needed(&self) -> String {
        let user = &self.user;
        format!(
            "the Redis user {user:?} lacks rights ({}): {}",
            names(&self.needed),
            self.grant(&self.needed)
        )
    }

    fn grant(&self, missing: &[MissingPermission]) -> String {
        grant(&self.user, missing.iter().map(|missing| missing.rule.as_str()))
    }

    /// The scripts that must not be sent, by hash, with the reason.
    pub(crate) fn refused_scripts<'a>(
        &self,
        scripts: impl Iterator<Item = &'a Script>,
    ) -> HashMap<String, String> {
        let refused = |script: &Script| {
            // A denied PUBLISH does not abort a script.
            let sends =
                |missing: &&MissingPermission| missing.command != "PUBLISH" && script.sends(&missing.command);
            let missing: Vec<MissingPermission> = self.needed.iter().filter(sends).cloned().collect();
            let why = || {
                let (user, name) = (&self.user, script.name);
                let names_of_missing = names(&missing);
                format!(
                    "the Redis user {user:?} may not {name} (it lacks {names_of_missing}): {}",
                    self.grant(&missing)
                )
            };
            (!missing.is_empty()).then(|| (script.sha.clone(), why()))
        };
        scripts.filter_map(refused).collect()
    }

    /// Describes missing optional permissions in one sentence; `None` if there are none.
    pub(crate) fn restrictions(&self) -> Option<String> {
        let worth_a_line = self.optional.iter().filter(|(missing, _)| missing.command != "CONFIG GET");
        let missing: Vec<MissingPermission> =
            worth_a_line.clone().map(|(missing, _)| missing.clone()).collect();
        let without: BTreeSet<&str> = worth_a_line.map(|(_, without)| *without).collect();
        let without = without.into_iter().collect::<Vec<_>>().join("; ");
        (!missing.is_empty()).then(|| {
            let (user, names, grant) = (&self.user, names(&missing), self.grant(&missing));
            format!("the Redis user {user:?} may not use {names}: {without}; to change this: {grant}")
        })
    }

    /// The findings of `doctor` about the user.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if !self.needed.is_empty() {
            findings.push(Finding::new(Severity::Bad, "rights", self.describe_needed()));
        }
        for (missing, without) in &self.optional {
            let grant = self.grant(std::slice::from_ref(missing));
            let found = format!("without {}, {without}; to change this: {grant}", missing.command);
            findings.push(Finding::new(Severity::Warning, "rights", found));
        }
        if findings.is_empty() {
            let found = format!("user {:?} may do everything that is needed", self.user);
            findings.push(Finding::new(Severity::Good, "rights", found));
        }
        findings
    }
}

/// The ACL rules of a user with exactly the permissions that a worker on one server needs. Redis
/// 6.2 grants a new user every channel, and rejects a pattern after that.
#[doc(hidden)]
pub fn worker_rules(namespace: &Namespace) -> String {
    let commands =
        commands::NEEDED.iter().map(|sample| command_of(sample)).chain(TRANSACTIONS.map(str::to_owned));
    let commands: BTreeSet<String> = commands.map(|command| rule_of(&command)).collect();
    let commands = commands.into_iter().collect::<Vec<_>>().join(" ");
    let all = escape_pattern(namespace);
    format!("~{all}* resetchannels &{all}* {commands}")
}

/// Missing permissions for transactions. Checked first: without MULTI, the samples would run.
async fn missing_transactions(node: &Node) -> Result<Vec<MissingPermission>, RedisError> {
    let mut ends = Pipeline::new();
    // Outside a transaction these two only return an error.
    ends.cmd("EXEC").cmd("DISCARD");
    let mut replies = node.raw_replies(&ends).await?;
    if !replies.iter().any(|reply| missing_permission("", reply, None).is_some()) {
        let mut whole = Pipeline::new();
        whole.cmd("MULTI").cmd("DISCARD");
        replies.extend(node.raw_replies(&whole).await?);
    }
    Ok(TRANSACTIONS
        .into_iter()
        .zip(replies)
        .filter_map(|(name, reply)| missing_permission(name, &reply, None))
        .collect())
}

/// Lets the server check commands; returns the missing permission of each, if any.
async fn probe_commands(
    node: &Node,
    samples: &[&str],
    about: &AclSample,
) -> Result<Vec<Option<MissingPermission>>, RedisError> {
    if samples.is_empty() {
        return Ok(Vec::new());
    }
    let mut batch = Pipeline::new();
    batch.cmd("MULTI");
    for sample in samples {
        batch.add_command(about.command(sample));
    }
    batch.cmd("DISCARD");
    let replies = node.raw_replies(&batch).await?;
    let judged = samples.iter().zip(replies.into_iter().skip(1));
    Ok(judged.map(|(sample, reply)| missing_permission(&command_of(sample), &reply, Some(about))).collect())
}

impl AclSample {
    fn command(&self, sample: &str) -> Cmd {
        let mut command = Cmd::new();
        for word in sample.split(' ') {
            command.arg(match word {
                "KEY" => &self.key,
                "CHANNEL" => &self.channel,
                word => word,
            });
        }
        command
    }
}

/// The missing permission that a reply reports.
fn missing_permission(command: &str, reply: &Value, about: Option<&AclSample>) -> Option<MissingPermission> {
    let Value::ServerError(error) = reply else { return None };
    let error = RedisError::from(error.clone());
    if !is_denied(&error) {
        return None;
    }
    let text = error.to_string();
    let rule = match about {
        Some(about) if text.contains("of the keys") => about.key_rule.clone(),
        Some(about) if text.contains("of the channels") => about.channel_rule.clone(),
        _ => rule_of(command),
    };
    Some(MissingPermission { command: command.to_owned(), rule })
}

/// The ACL rule that grants a command.
fn rule_of(command: &str) -> String {
    format!("+{}", command.to_lowercase().replace(' ', "|"))
}

/// The command of a sample, with its subcommand.
fn command_of(sample: &str) -> String {
    let container = ["CLIENT", "CLUSTER", "CONFIG", "SCRIPT", "XGROUP", "XINFO"];
    let words = if container.contains(&sample.split(' ').next().unwrap_or_default()) { 2 } else { 1 };
    sample.split(' ').take(words).collect::<Vec<_>>().join(" ")
}

/// The permissions by name, each once: commands, or the keys or channels that no command may
/// access.
fn names(missing: &[MissingPermission]) -> String {
    let name = |missing: &MissingPermission| match missing.rule.split_at_checked(1) {
        Some(("~", keys)) => format!("access to the keys {keys}"),
        Some(("&", channels)) => format!("access to the channels {channels}"),
        _ => missing.command.clone(),
    };
    let names: BTreeSet<String> = missing.iter().map(name).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The command that gives a user these rules, each once.
fn grant<'a>(user: &str, rules: impl Iterator<Item = &'a str>) -> String {
    let rules: BTreeSet<&str> = rules.collect();
    format!("ACL SETUSER {user} {}", rules.into_iter().collect::<Vec<_>>().join(" "))
}
