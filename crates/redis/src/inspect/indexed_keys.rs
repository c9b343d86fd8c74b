//! Keys that only an index names, to be checked for damage: of runs, of the fleet, and jobs never
//! due.

use redis::Value;
use tidemill_core::store::{Finding, Severity};
use tidemill_core::workflow::WORKFLOW_QUEUE;
use tidemill_core::{Envelope, Error};

use crate::connection::keys::FLEET_SHARD;
use crate::connection::reply::{bytes, text};
use crate::store::RedisStore;

/// How many runs of a shard, and workers and sessions of the fleet, are checked: the newest.
const MAX_LISTED_KEYS: usize = 10_000;

/// How many runs one round trip lists.
const PAGE_SIZE: usize = 1_000;

/// The last valid due time: the last millisecond of the year 9999.
const MAX_DUE_MS: i64 = 253_402_300_799_999;

/// How many jobs that are never due are named.
const MAX_NAMED_JOBS: usize = 5;

impl RedisStore {
    /// The keys of the newest runs, and the indexes of their types.
    pub(crate) async fn keys_of_runs(&self, shard: u16) -> Result<Vec<String>, Error> {
        let mut types = self.unless_damaged("listing workflows", self.workflow_types(shard).await)?;
        let queues = self.unless_damaged("listing workflows", self.registered_queues(shard).await)?;
        let tasks = queues.iter().filter_map(|queue| queue.name.as_str().strip_prefix(WORKFLOW_QUEUE));
        types.extend(tasks.filter_map(|name| name.split('/').next()).map(str::to_owned));
        types.sort_unstable();
        types.dedup();
        let of_type = |workflow: &String| self.keys.workflow_type_keys(shard, workflow);
        let mut keys: Vec<String> = types.iter().flat_map(of_type).collect();
        let mut listed = 0;
        while listed < MAX_LISTED_KEYS {
            let mut command = redis::cmd("ZREVRANGEBYSCORE");
            command
                .arg(self.keys.runs(shard, None))
                .arg("+inf")
                .arg("-inf")
                .arg("LIMIT")
                .arg(listed)
                .arg(PAGE_SIZE);
            let runs: Vec<String> =
                self.unless_damaged("listing runs", self.connections.query(shard, &command).await)?;
            keys.extend(runs.iter().flat_map(|run| self.keys.run_keys(shard, run)));
            listed += PAGE_SIZE;
            if runs.len() < PAGE_SIZE {
                break;
            }
        }
        Ok(keys)
    }

    async fn workflow_types(&self, shard: u16) -> Result<Vec<String>, Error> {
        let (mut types, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let scan = redis::cmd("SSCAN")
                .arg(self.keys.workflows(shard))
                .arg(&cursor)
                .arg("COUNT")
                .arg(PAGE_SIZE)
                .take();
            let (next, page): (String, Vec<String>) = self.connections.query(shard, &scan).await?;
            types.extend(page);
            if next == "0" {
                return Ok(types);
            }
            cursor = next;
        }
    }

    /// The keys of workers and sessions of the fleet.
    pub(crate) async fn keys_of_fleet(&self) -> Result<Vec<String>, Error> {
        let workers = self.fleet_members("fleet:members").await?;
        let mut keys = Vec::new();
        for part in workers.chunks(PAGE_SIZE) {
            let command = redis::cmd("HMGET").arg(self.keys.fleet_key("fleet:places")).arg(part).take();
            let descriptions: Vec<Option<String>> =
                self.unless_damaged("listing workers", self.connections.query(FLEET_SHARD, &command).await)?;
            let offers = descriptions.into_iter().chain(std::iter::repeat(None));
            for (worker, description) in part.iter().zip(offers) {
                let offer = description.as_deref().and_then(|description| description.split(' ').next());
                keys.extend(self.keys.worker_keys(worker, offer));
            }
        }
        let sessions = self.fleet_members("fleet:sessions").await?;
        let sessions = sessions.iter().filter_map(|entry| entry.split_once(' '));
        keys.extend(sessions.map(|(_, session)| self.keys.fleet_key(&format!("fleet:session:{session}"))));
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// The first members of a sorted set of the fleet.
    async fn fleet_members(&self, name: &str) -> Result<Vec<String>, Error> {
        let command =
            redis::cmd("ZRANGE").arg(self.keys.fleet_key(name)).arg(0).arg(MAX_LISTED_KEYS - 1).take();
        self.unless_damaged("listing the fleet", self.connections.query(FLEET_SHARD, &command).await)
    }

    /// Jobs and timers that are never due: another program wrote them.
    pub(crate) async fn never_due(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        for shard in 0..self.keys.shards() {
            let queues = self.unless_damaged("checking due times", self.registered_queues(shard).await)?;
            let scheduled = queues.iter().map(|queue| self.keys.scheduled(shard, queue));
            for key in scheduled.chain([self.keys.timers(shard)]) {
                findings
                    .extend(self.unless_damaged("checking due times", self.never_due_in(shard, &key).await)?);
            }
        }
        Ok(findings)
    }

    async fn never_due_in(&self, shard: u16, key: &str) -> Result<Option<Finding>, Error> {
        let first = format!("({MAX_DUE_MS}");
        let count = redis::cmd("ZCOUNT").arg(key).arg(&first).arg("+inf").take();
        let count: u64 = self.connections.query(shard, &count).await?;
        if count == 0 {
            return Ok(None);
        }
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(key).arg(&first).arg("+inf").arg("LIMIT").arg(0).arg(MAX_NAMED_JOBS);
        let members: Vec<Value> = self.connections.query(shard, &command).await?;
        let names: Vec<String> = members.into_iter().filter_map(name_of).collect();
        let more = if count > names.len() as u64 { ", …" } else { "" };
        let message = format!(
            "`{key}` has {count} entries that are never due (behind the year 9999): {}{more}; cancel them, or give each \
             its time with ZADD XX",
            names.join(", ")
        );
        Ok(Some(Finding::new(Severity::Bad, "due times", message)))
    }
}

/// The id of a job, or the name of a timer.
fn name_of(member: Value) -> Option<String> {
    let data = bytes(member.clone())?;
    let id = Envelope::read(data).ok().map(|envelope| envelope.id().to_string());
    id.or_else(|| text(member).map(|name| name.chars().take(64).collect()))
}
