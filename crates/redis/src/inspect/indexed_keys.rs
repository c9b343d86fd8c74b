//! What may be damaged and is named by an index alone: keys of runs and of the fleet, and jobs whose time never comes.

use redis::Value;
use tidemill_core::store::{Finding, Severity};
use tidemill_core::workflow::WORKFLOW_QUEUE;
use tidemill_core::{Envelope, Error};

use crate::connection::keys::FLEET_SHARD;
use crate::connection::reply::{bytes, text};
use crate::store::RedisStore;

/// How many runs of a shard, and members and sessions of the fleet, are looked at: the newest.
const MAX_LOOKED_AT: usize = 10_000;

/// How many runs one trip names.
const PAGE: usize = 1_000;

/// A job is never due behind this, the last millisecond of the year 9999.
const LAST_DUE: i64 = 253_402_300_799_999;

/// How many jobs that are never due are named.
const NAMED: usize = 5;

impl RedisStore {
    /// The keys of the newest runs, and the indexes of their types.
    pub(crate) async fn keys_of_runs(&self, shard: u16) -> Result<Vec<String>, Error> {
        let mut types = self.unless_damaged("listing workflows", self.workflow_types(shard).await)?;
        let queues = self.unless_damaged("listing workflows", self.names_of_queues(shard).await)?;
        let tasks = queues.iter().filter_map(|queue| queue.name.as_str().strip_prefix(WORKFLOW_QUEUE));
        types.extend(tasks.filter_map(|name| name.split('/').next()).map(str::to_owned));
        types.sort_unstable();
        types.dedup();
        let of_type = |workflow: &String| self.keys.of_workflow_type(shard, workflow);
        let mut keys: Vec<String> = types.iter().flat_map(of_type).collect();
        let mut looked_at = 0;
        while looked_at < MAX_LOOKED_AT {
            let mut ask = redis::cmd("ZREVRANGEBYSCORE");
            ask.arg(self.keys.runs(shard, None))
                .arg("+inf")
                .arg("-inf")
                .arg("LIMIT")
                .arg(looked_at)
                .arg(PAGE);
            let runs: Vec<String> =
                self.unless_damaged("listing runs", self.link.query(shard, &ask).await)?;
            keys.extend(runs.iter().flat_map(|run| self.keys.of_run(shard, run)));
            looked_at += PAGE;
            if runs.len() < PAGE {
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
                .arg(PAGE)
                .take();
            let (next, page): (String, Vec<String>) = self.link.query(shard, &scan).await?;
            types.extend(page);
            if next == "0" {
                return Ok(types);
            }
            cursor = next;
        }
    }

    /// The keys of members and sessions of the fleet.
    pub(crate) async fn keys_of_fleet(&self) -> Result<Vec<String>, Error> {
        let members = self.listed("fleet:members").await?;
        let mut keys = Vec::new();
        for part in members.chunks(PAGE) {
            let ask = redis::cmd("HMGET").arg(self.keys.of_fleet("fleet:places")).arg(part).take();
            let places: Vec<Option<String>> =
                self.unless_damaged("listing members", self.link.query(FLEET_SHARD, &ask).await)?;
            let offers = places.into_iter().chain(std::iter::repeat(None));
            for (member, place) in part.iter().zip(offers) {
                let offer = place.as_deref().and_then(|place| place.split(' ').next());
                keys.extend(self.keys.of_member(member, offer));
            }
        }
        let sessions = self.listed("fleet:sessions").await?;
        let sessions = sessions.iter().filter_map(|entry| entry.split_once(' '));
        keys.extend(sessions.map(|(_, session)| self.keys.of_fleet(&format!("fleet:session:{session}"))));
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// The first of a list of the fleet.
    async fn listed(&self, name: &str) -> Result<Vec<String>, Error> {
        let ask = redis::cmd("ZRANGE").arg(self.keys.of_fleet(name)).arg(0).arg(MAX_LOOKED_AT - 1).take();
        self.unless_damaged("listing the fleet", self.link.query(FLEET_SHARD, &ask).await)
    }

    /// Jobs and alarms whose due time never comes: another program wrote it.
    pub(crate) async fn never_due(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        for shard in 0..self.keys.shards() {
            let queues = self.unless_damaged("looking at due times", self.names_of_queues(shard).await)?;
            let scheduled = queues.iter().map(|queue| self.keys.scheduled(shard, queue));
            for key in scheduled.chain([self.keys.timers(shard)]) {
                findings.extend(
                    self.unless_damaged("looking at due times", self.never_due_in(shard, &key).await)?,
                );
            }
        }
        Ok(findings)
    }

    async fn never_due_in(&self, shard: u16, key: &str) -> Result<Option<Finding>, Error> {
        let first = format!("({LAST_DUE}");
        let count = redis::cmd("ZCOUNT").arg(key).arg(&first).arg("+inf").take();
        let count: u64 = self.link.query(shard, &count).await?;
        if count == 0 {
            return Ok(None);
        }
        let mut ask = redis::cmd("ZRANGEBYSCORE");
        ask.arg(key).arg(&first).arg("+inf").arg("LIMIT").arg(0).arg(NAMED);
        let members: Vec<Value> = self.link.query(shard, &ask).await?;
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

/// The id of a job, or the name of an alarm.
fn name_of(member: Value) -> Option<String> {
    let data = bytes(member.clone())?;
    let id = Envelope::read(data).ok().map(|envelope| envelope.id().to_string());
    id.or_else(|| text(member).map(|name| name.chars().take(64).collect()))
}
