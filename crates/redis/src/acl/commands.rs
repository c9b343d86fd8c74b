//! The commands that the store sends, each as a sample that the server can check without running
//! it.

/// `KEY` stands for a key of the store, `CHANNEL` for its channel. Scripts send most of these.
pub(super) const NEEDED: &[&str] = &[
    "BLMOVE KEY KEY LEFT LEFT 1",
    "BRPOP KEY 1",
    "DEL KEY",
    "EVAL x 0",
    "EVALSHA x 0",
    "EXISTS KEY",
    "GET KEY",
    "HDEL KEY x",
    "HELLO",
    "HEXISTS KEY x",
    "HGET KEY x",
    "HGETALL KEY",
    "HKEYS KEY",
    "HLEN KEY",
    "HMGET KEY x",
    "HSCAN KEY 0",
    "HSET KEY x x",
    "HSETNX KEY x x",
    "HVALS KEY",
    "LLEN KEY",
    "LMOVE KEY KEY LEFT LEFT",
    "LPUSH KEY x",
    "LRANGE KEY 0 0",
    "LREM KEY 1 x",
    "LTRIM KEY 0 0",
    "MGET KEY",
    "PERSIST KEY",
    "PEXPIRE KEY 1",
    "PEXPIREAT KEY 1",
    "PING",
    "PUBLISH CHANNEL x",
    "RENAME KEY KEY",
    "RPOP KEY",
    "RPUSH KEY x",
    "SADD KEY x",
    "SCRIPT LOAD x",
    "SET KEY x",
    "SISMEMBER KEY x",
    "SMEMBERS KEY",
    "SREM KEY x",
    "SSCAN KEY 0",
    "SUBSCRIBE CHANNEL",
    "TIME",
    "TYPE KEY",
    "UNLINK KEY",
    "XACK KEY x 1-1",
    "XADD KEY * x x",
    "XCLAIM KEY x x 0 1-1",
    "XDEL KEY 1-1",
    "XGROUP CREATE KEY x 0",
    "XGROUP CREATECONSUMER KEY x x",
    "XGROUP DELCONSUMER KEY x x",
    "XGROUP SETID KEY x 0",
    "XINFO CONSUMERS KEY x",
    "XINFO GROUPS KEY",
    "XINFO STREAM KEY",
    "XLEN KEY",
    "XPENDING KEY x",
    "XRANGE KEY - +",
    "XREADGROUP GROUP x x STREAMS KEY >",
    "XREVRANGE KEY + -",
    "XTRIM KEY MINID 1",
    "ZADD KEY 1 x",
    "ZCARD KEY",
    "ZCOUNT KEY 0 1",
    "ZRANGE KEY 0 0",
    "ZRANGEBYLEX KEY - +",
    "ZRANGEBYSCORE KEY 0 1",
    "ZRANK KEY x",
    "ZREM KEY x",
    "ZREMRANGEBYRANK KEY 0 0",
    "ZREVRANGEBYSCORE KEY 1 0",
    "ZSCORE KEY x",
];

/// Commands that only a worker needs. A user without these enqueues or reads.
pub(super) const WORKER_ONLY: &[&str] = &["XREADGROUP", "BLMOVE"];

/// Needed for enqueues that wait for replicas.
pub(super) const REPLICAS: &str = "WAIT 1 1";

/// Needed with Sentinels: the driver asks whether a server is the master.
pub(super) const SENTINEL: &str = "ROLE";

/// Needed on a Cluster.
pub(super) const CLUSTER: &[&str] = &["CLUSTER SLOTS", "CLUSTER KEYSLOT KEY"];

/// Needed for wake-ups through Redis.
pub(super) const WAKE: &[&str] = &[
    "DECR KEY",
    "EVAL x 0",
    "EXPIRE KEY 1",
    "GET KEY",
    "INCRBY KEY 1",
    "PING",
    "PTTL KEY",
    "PUBLISH CHANNEL x",
    "SET KEY x",
    "SUBSCRIBE CHANNEL",
    "UNSUBSCRIBE CHANNEL",
];

/// Optional commands, and the consequence of their absence.
pub(super) const OPTIONAL: &[(&str, &str)] = &[
    (
        "INFO server",
        "eviction, persistence and memory cannot be checked, and the fleet cannot notice that the server was \
         restarted",
    ),
    ("CLIENT ID", UNBLOCK_FALLBACK),
    ("CLIENT UNBLOCK 1", UNBLOCK_FALLBACK),
    ("SCAN 0", "queues that only other programs have filled are not found"),
    ("CONFIG GET appendfsync", "`doctor` cannot see how the append-only file is synced"),
];

const UNBLOCK_FALLBACK: &str = "waiting claims cannot be interrupted: they ask the server once a second (several times a \
                      second with shards), and workers stop up to a second later";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::super::command_of;
    use super::*;

    /// The quoted words after each `before`, with a second word if it follows after `between`.
    fn commands(text: &str, before: &str, (quote, between): (char, &str)) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for part in text.split(before).skip(1) {
            let Some((name, rest)) = part.split_once(quote) else { continue };
            let is_command = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase());
            if !is_command(name) {
                continue;
            }
            let second =
                rest.strip_prefix(between).and_then(|rest| rest.split_once(quote)).map(|(word, _)| word);
            let container = ["CLIENT", "CLUSTER", "CONFIG", "SCRIPT", "XGROUP", "XINFO"].contains(&name);
            found.insert(match second {
                Some(second) if container && is_command(second) => format!("{name} {second}"),
                _ => name.to_owned(),
            });
        }
        found
    }

    fn files(directory: &Path, extension: &str, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, extension, out);
            } else if path.extension().is_some_and(|found| found == extension) {
                out.push(path);
            }
        }
    }

    #[test]
    fn names_every_command_that_scripts_and_code_send() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (mut scripts, mut sources) = (Vec::new(), Vec::new());
        files(&root.join("lua"), "lua", &mut scripts);
        files(&root.join("src"), "rs", &mut sources);
        let mut sent = BTreeSet::new();
        for path in scripts {
            sent.extend(commands(&fs::read_to_string(path).unwrap(), "('", ('\'', ", '")));
        }
        for path in sources {
            sent.extend(commands(&fs::read_to_string(path).unwrap(), "cmd(\"", ('"', ").arg(\"")));
        }
        let optional = OPTIONAL.iter().map(|(sample, _)| *sample);
        let samples = NEEDED.iter().chain(CLUSTER).chain(WAKE).copied().chain(optional).chain([REPLICAS]);
        let mut known: BTreeSet<String> = samples.map(command_of).collect();
        known.extend(["MULTI", "EXEC", "DISCARD"].map(str::to_owned));
        let unknown: Vec<_> = sent.difference(&known).collect();
        assert!(unknown.is_empty(), "not in the table of rights: {unknown:?}");
        assert!(sent.len() > 50, "{sent:?}");
    }
}
