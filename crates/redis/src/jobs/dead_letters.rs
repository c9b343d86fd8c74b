//! Where the dead letters of jobs are.

use std::collections::HashMap;

use redis::Value;
use tidemill_core::{DeadLetter, Error, JobId, Queue};

use super::stream::nameless;
use crate::connection::keys::is_of_workflow;
use crate::connection::reply::{Entry, bytes, entries, entry_id, int};
use crate::error::odd_answer;
use crate::jobs::locate::Place;
use crate::store::RedisStore;

/// Letters walked per trip when some are looked for that have no index entry.
const PAGE: usize = 500;

/// The letters of one shard: which of those asked for, and the entry of each.
pub(super) type Found = Vec<(usize, String)>;

impl RedisStore {
    /// Where the letters of jobs are, by shard. One that another program wrote has no index entry and is looked
    /// for.
    pub(super) async fn find_letters(
        &self,
        queue: &Queue,
        jobs: &[&JobId],
    ) -> Result<Vec<(u16, Found)>, Error> {
        let mut found: Vec<(u16, Found)> = Vec::new();
        let mut foreign = Vec::new();
        for shard in 0..self.keys.shards() {
            let here: Vec<usize> =
                (0..jobs.len()).filter(|&index| self.keys.shard_of(jobs[index]) == shard).collect();
            if here.is_empty() {
                continue;
            }
            let mut ask = redis::cmd("HMGET");
            ask.arg(self.keys.jobs(shard));
            for &index in &here {
                ask.arg(jobs[index].chain().as_str());
            }
            let values: Vec<Value> = self.link.query(shard, &ask).await?;
            let mut letters = Vec::new();
            for (index, value) in here.into_iter().zip(values) {
                match bytes(value).and_then(|value| Place::read(shard, value)) {
                    None => foreign.push(index),
                    // A letter of a message that had the id of this job has no entry of its own.
                    Some(place) if !place.is_dead() && is_of_workflow(queue) => foreign.push(index),
                    Some(place) if place.is_dead() && place.queue == *queue => {
                        letters.push((index, String::from_utf8_lossy(&place.reference).into_owned()));
                    }
                    Some(_) => {}
                }
            }
            found.push((shard, letters));
        }
        if !foreign.is_empty() {
            found.extend(self.foreign_letters(queue, jobs, &foreign).await?);
        }
        Ok(found)
    }

    /// Walks the letters of a queue for those that have no index entry.
    async fn foreign_letters(
        &self,
        queue: &Queue,
        jobs: &[&JobId],
        wanted: &[usize],
    ) -> Result<Vec<(u16, Found)>, Error> {
        let mut wanted: HashMap<&JobId, usize> = wanted.iter().map(|&index| (jobs[index], index)).collect();
        let mut found = Vec::new();
        for shard in 0..self.keys.shards() {
            let (mut from, mut letters) = ("-".to_owned(), Vec::new());
            while !wanted.is_empty() {
                let mut range = redis::cmd("XRANGE");
                range.arg(self.keys.dlq(shard, queue)).arg(&from).arg("+").arg("COUNT").arg(PAGE);
                let page = entries(self.link.query(shard, &range).await?)?;
                let Some(last) = page.last().map(|entry| entry_id(entry.token)) else { break };
                for entry in page {
                    let index = wanted.remove(&letter_name(&entry));
                    letters.extend(index.map(|index| (index, entry_id(entry.token))));
                }
                from = format!("({last}");
            }
            found.push((shard, letters));
        }
        Ok(found)
    }
}

/// What a letter is called: by its job or, if it cannot be read, by its entry.
pub(crate) fn letter_name(letter: &Entry) -> JobId {
    let read = DeadLetter::read(letter.data.clone());
    read.map_or_else(|_| nameless(&entry_id(letter.token)), |letter| letter.job)
}

pub(super) fn count(answer: &Value) -> Result<u64, Error> {
    int(answer).and_then(|count| u64::try_from(count).ok()).ok_or_else(|| odd_answer("letters"))
}
