//! Finding the dead letters of jobs.

use std::collections::HashMap;

use redis::Value;
use tidemill_core::{DeadLetter, Error, JobId, Queue};

use super::stream::invalid_job_id;
use crate::connection::keys::is_workflow_queue;
use crate::connection::reply::{StreamEntry, bytes, entries, entry_id, int};
use crate::error::unexpected_reply;
use crate::jobs::locate::JobLocation;
use crate::store::RedisStore;

/// How many dead letters one round trip reads in a search for unindexed ones.
const PAGE_SIZE: usize = 500;

/// Dead letters of one shard: the number of each requested job, and its entry.
pub(super) type FoundLetters = Vec<(usize, String)>;

impl RedisStore {
    /// Finds the dead letters of jobs, by shard. Those that another program wrote have no index
    /// entry and are searched for.
    pub(super) async fn find_letters(
        &self,
        queue: &Queue,
        jobs: &[&JobId],
    ) -> Result<Vec<(u16, FoundLetters)>, Error> {
        let mut found: Vec<(u16, FoundLetters)> = Vec::new();
        let mut foreign = Vec::new();
        for shard in 0..self.keys.shards() {
            let here: Vec<usize> =
                (0..jobs.len()).filter(|&index| self.keys.shard_of(jobs[index]) == shard).collect();
            if here.is_empty() {
                continue;
            }
            let mut command = redis::cmd("HMGET");
            command.arg(self.keys.jobs(shard));
            for &index in &here {
                command.arg(jobs[index].chain().as_str());
            }
            let values: Vec<Value> = self.connections.query(shard, &command).await?;
            let mut letters = Vec::new();
            for (index, value) in here.into_iter().zip(values) {
                match bytes(value).and_then(|value| JobLocation::parse(shard, value)) {
                    None => foreign.push(index),
                    // The dead letter of a message with the id of this job has no index entry.
                    Some(location) if !location.is_dead() && is_workflow_queue(queue) => foreign.push(index),
                    Some(location) if location.is_dead() && location.queue == *queue => {
                        letters.push((index, String::from_utf8_lossy(&location.reference).into_owned()));
                    }
                    Some(_) => {}
                }
            }
            found.push((shard, letters));
        }
        if !foreign.is_empty() {
            found.extend(self.find_unindexed(queue, jobs, &foreign).await?);
        }
        Ok(found)
    }

    /// Searches the dead letters of a queue for those without an index entry.
    async fn find_unindexed(
        &self,
        queue: &Queue,
        jobs: &[&JobId],
        wanted: &[usize],
    ) -> Result<Vec<(u16, FoundLetters)>, Error> {
        let mut wanted: HashMap<&JobId, usize> = wanted.iter().map(|&index| (jobs[index], index)).collect();
        let mut found = Vec::new();
        for shard in 0..self.keys.shards() {
            let (mut from, mut letters) = ("-".to_owned(), Vec::new());
            while !wanted.is_empty() {
                let mut range = redis::cmd("XRANGE");
                range.arg(self.keys.dlq(shard, queue)).arg(&from).arg("+").arg("COUNT").arg(PAGE_SIZE);
                let page = entries(self.connections.query(shard, &range).await?)?;
                let Some(last) = page.last().map(|entry| entry_id(entry.token)) else { break };
                for entry in page {
                    let index = wanted.remove(&dead_letter_id(&entry));
                    letters.extend(index.map(|index| (index, entry_id(entry.token))));
                }
                from = format!("({last}");
            }
            found.push((shard, letters));
        }
        Ok(found)
    }
}

/// The id of a dead letter: that of its job or, if it cannot be read, one made from its entry.
pub(crate) fn dead_letter_id(letter: &StreamEntry) -> JobId {
    let read = DeadLetter::read(letter.data.clone());
    read.map_or_else(|_| invalid_job_id(&entry_id(letter.token)), |letter| letter.job)
}

pub(super) fn parse_count(reply: &Value) -> Result<u64, Error> {
    int(reply).and_then(|count| u64::try_from(count).ok()).ok_or_else(|| unexpected_reply("dead letters"))
}
