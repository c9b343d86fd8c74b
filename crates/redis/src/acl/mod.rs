//! What the user of the URL may do, asked when the store connects.
//!
//! A user who may not look into ACLs can still be told what it lacks: the server judges a command when it is
//! queued in a transaction, and the transaction is discarded. So nothing runs, whatever the answers are. A script
//! that is refused a command ends between two writes, so scripts that would be are never sent.

mod commands;

use std::collections::{BTreeSet, HashMap};

use redis::{Cmd, Pipeline, RedisError, Value};
use tidemill_core::store::{Finding, Severity};
use tidemill_core::{Error, Namespace};

use crate::connection::Node;
use crate::connection::keys::literal;
use crate::connection::script::Script;
use crate::error::{classify, is_denied};
use crate::options::Options;

/// Judging needs these, and so do enqueues in bulk.
const TRANSACTIONS: [&str; 3] = ["EXEC", "DISCARD", "MULTI"];

/// A key and a channel of the store, and the rules that grant all of them.
pub(crate) struct Sample {
    pub(crate) key: String,
    pub(crate) key_rule: String,
    pub(crate) channel: String,
    pub(crate) channel_rule: String,
}

/// What a user lacks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rights {
    user: String,
    needed: Vec<Missing>,
    optional: Vec<(Missing, &'static str)>,
}

/// One right that a user lacks: the command, and the rule that grants it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Missing {
    command: String,
    rule: String,
}

impl Rights {
    /// Asks one server what the user of the store may do there.
    pub(crate) async fn of_store(node: &Node, options: &Options, sample: Sample) -> Result<Self, Error> {
        let mut needed = commands::NEEDED.to_vec();
        needed.extend((options.replicas > 0).then_some(commands::REPLICAS));
        needed.extend(options.sentinels.is_some().then_some(commands::SENTINEL));
        needed.extend(commands::CLUSTER.iter().filter(|_| options.cluster));
        Self::ask(node, options, (needed, commands::OPTIONAL), sample).await
    }

    /// Asks one server what the user of wake-ups may do there.
    pub(crate) async fn of_wake_ups(node: &Node, options: &Options, sample: Sample) -> Result<Self, Error> {
        Self::ask(node, options, (commands::WAKE.to_vec(), &[]), sample).await
    }

    async fn ask(
        node: &Node,
        options: &Options,
        (needed, optional): (Vec<&'static str>, &'static [(&'static str, &'static str)]),
        sample: Sample,
    ) -> Result<Self, Error> {
        let failed = |error| classify("asking for the user's rights", error);
        let user = options.info.redis_settings().username().unwrap_or("default").to_owned();
        let transactions = transactions(node).await.map_err(failed)?;
        if !transactions.is_empty() {
            return Ok(Self { user, needed: transactions, optional: Vec::new() });
        }
        let needed = judge(node, &needed, &sample).await.map_err(failed)?.into_iter().flatten().collect();
        let samples: Vec<&str> = optional.iter().map(|(sample, _)| *sample).collect();
        let answers = judge(node, &samples, &sample).await.map_err(failed)?.into_iter().zip(optional);
        let optional = answers.filter_map(|(missing, (_, without))| Some((missing?, *without))).collect();
        Ok(Self { user, needed, optional })
    }

    /// Adds what the user lacks on another server.
    pub(crate) fn merge(&mut self, other: Self) {
        self.user = other.user;
        self.needed
            .extend(other.needed.into_iter().filter(|new| !self.needed.contains(new)).collect::<Vec<_>>());
        let known = |new: &(Missing, &str)| !self.optional.contains(new);
        self.optional.extend(other.optional.into_iter().filter(known).collect::<Vec<_>>());
    }

    /// Refuses a user who may take jobs but lacks a right that a worker needs, or may not even read.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let may_read = !["GET", "TIME", "EVALSHA"].iter().any(|command| self.lacks(command));
        if may_read && !self.may_work() { Ok(()) } else { self.check_all() }
    }

    /// Refuses a user who lacks anything that is needed.
    pub(crate) fn check_all(&self) -> Result<(), Error> {
        if self.needed.is_empty() { Ok(()) } else { Err(Error::Denied(self.complaint())) }
    }

    fn may_work(&self) -> bool {
        commands::WORK.iter().any(|command| !self.lacks(command))
    }

    /// Whether blocked reads can be ended early.
    pub(crate) fn may_unblock(&self) -> bool {
        !self.optional.iter().any(|(missing, _)| missing.command.starts_with("CLIENT "))
    }

    fn lacks(&self, command: &str) -> bool {
        self.needed.iter().any(|missing| missing.command == command)
    }

    fn complaint(&self) -> String {
        let user = &self.user;
        format!(
            "the Redis user {user:?} lacks rights ({}): {}",
            names(&self.needed),
            self.grant(&self.needed)
        )
    }

    fn grant(&self, missing: &[Missing]) -> String {
        grant(&self.user, missing.iter().map(|missing| missing.rule.as_str()))
    }

    /// The scripts that must not be sent, by hash, and why.
    pub(crate) fn refused<'a>(&self, scripts: impl Iterator<Item = &'a Script>) -> HashMap<String, String> {
        let refused = |script: &Script| {
            // A refused PUBLISH ends no script.
            let sends = |missing: &&Missing| missing.command != "PUBLISH" && script.sends(&missing.command);
            let missing: Vec<Missing> = self.needed.iter().filter(sends).cloned().collect();
            let why = || {
                let (user, name) = (&self.user, script.name);
                let rights = names(&missing);
                format!(
                    "the Redis user {user:?} may not {name} (it lacks {rights}): {}",
                    self.grant(&missing)
                )
            };
            (!missing.is_empty()).then(|| (script.sha.clone(), why()))
        };
        scripts.filter_map(refused).collect()
    }

    /// What the user does without, in one sentence; `None` if nothing.
    pub(crate) fn restrictions(&self) -> Option<String> {
        let worth_a_line = self.optional.iter().filter(|(missing, _)| missing.command != "CONFIG GET");
        let missing: Vec<Missing> = worth_a_line.clone().map(|(missing, _)| missing.clone()).collect();
        let without: BTreeSet<&str> = worth_a_line.map(|(_, without)| *without).collect();
        let without = without.into_iter().collect::<Vec<_>>().join("; ");
        (!missing.is_empty()).then(|| {
            let (user, names, grant) = (&self.user, names(&missing), self.grant(&missing));
            format!("the Redis user {user:?} may not use {names}: {without}; to change this: {grant}")
        })
    }

    /// What `doctor` says of the user.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if !self.needed.is_empty() {
            findings.push(Finding::new(Severity::Bad, "rights", self.complaint()));
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

/// The rules of an ACL user who may do everything that a worker on one server needs, and nothing else. Redis 6.2 gives a new user
/// every channel, and refuses a pattern behind that.
#[doc(hidden)]
pub fn worker_rules(namespace: &Namespace) -> String {
    let commands =
        commands::NEEDED.iter().map(|sample| command_of(sample)).chain(TRANSACTIONS.map(str::to_owned));
    let commands: BTreeSet<String> = commands.map(|command| rule_of(&command)).collect();
    let commands = commands.into_iter().collect::<Vec<_>>().join(" ");
    let all = literal(namespace);
    format!("~{all}* resetchannels &{all}* {commands}")
}

/// What the user lacks of the transaction itself. Asked first: if MULTI were refused, what follows it would run.
async fn transactions(node: &Node) -> Result<Vec<Missing>, RedisError> {
    let mut ends = Pipeline::new();
    // Without a transaction these two do nothing but complain.
    ends.cmd("EXEC").cmd("DISCARD");
    let mut answers = node.answers(&ends).await?;
    if !answers.iter().any(|answer| missing("", answer, None).is_some()) {
        let mut whole = Pipeline::new();
        whole.cmd("MULTI").cmd("DISCARD");
        answers.extend(node.answers(&whole).await?);
    }
    Ok(TRANSACTIONS
        .into_iter()
        .zip(answers)
        .filter_map(|(name, answer)| missing(name, &answer, None))
        .collect())
}

/// Lets the server judge commands: for each, what the user lacks, or nothing.
async fn judge(node: &Node, samples: &[&str], about: &Sample) -> Result<Vec<Option<Missing>>, RedisError> {
    if samples.is_empty() {
        return Ok(Vec::new());
    }
    let mut batch = Pipeline::new();
    batch.cmd("MULTI");
    for sample in samples {
        batch.add_command(about.fill(sample));
    }
    batch.cmd("DISCARD");
    let answers = node.answers(&batch).await?;
    let judged = samples.iter().zip(answers.into_iter().skip(1));
    Ok(judged.map(|(sample, answer)| missing(&command_of(sample), &answer, Some(about))).collect())
}

impl Sample {
    fn fill(&self, sample: &str) -> Cmd {
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

/// What an answer says the user lacks.
fn missing(command: &str, answer: &Value, about: Option<&Sample>) -> Option<Missing> {
    let Value::ServerError(error) = answer else { return None };
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
    Some(Missing { command: command.to_owned(), rule })
}

/// The rule that grants a command.
fn rule_of(command: &str) -> String {
    format!("+{}", command.to_lowercase().replace(' ', "|"))
}

/// The command of a sample, with its second word if that is part of its name.
fn command_of(sample: &str) -> String {
    let container = ["CLIENT", "CLUSTER", "CONFIG", "SCRIPT", "XGROUP", "XINFO"];
    let words = if container.contains(&sample.split(' ').next().unwrap_or_default()) { 2 } else { 1 };
    sample.split(' ').take(words).collect::<Vec<_>>().join(" ")
}

/// The rights by name, each once: commands, or the keys or channels that no command may touch.
fn names(missing: &[Missing]) -> String {
    let name = |missing: &Missing| match missing.rule.split_at_checked(1) {
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
