//! Dead letters: back to their queue, or gone. Many at a time: those of one shard in one trip.

use std::collections::HashMap;

use redis::Value;
use tidemill_core::store::{RedriveItem, RedriveParams};
use tidemill_core::{DeadLetter, Envelope, Error, JobId, Queue};

use super::portions;
use super::stream::nameless;
use crate::chains::errand::Errand;
use crate::error::odd_answer;
use crate::keys::{is_of_workflow, letter};
use crate::link::Call;
use crate::search::Place;
use crate::store::RedisStore;
use crate::value::{Entry, array, bytes, entries, entry_id, int};

/// Letters walked per trip when some are looked for that have no index entry.
const PAGE: usize = 500;

/// Letters dropped by one script.
const BATCH: usize = 250;

/// The letters of one shard: which of those asked for, and the entry of each.
type Found = Vec<(usize, String)>;

impl RedisStore {
    pub(crate) async fn redrive_letters(&self, redrive: RedriveParams<'_>) -> Result<u64, Error> {
        let jobs: Vec<&JobId> = redrive.letters.iter().map(|letter| &letter.job).collect();
        let mut moved = 0;
        for (shard, found) in self.find_letters(redrive.queue, &jobs).await? {
            let weigh = |position: usize| {
                let RedriveItem { letter, envelope, .. } = &redrive.letters[found[position].0];
                letter.len() + envelope.len()
            };
            for portion in portions((0..found.len()).collect(), weigh) {
                let part: Vec<_> = portion.into_iter().map(|position| &found[position]).collect();
                moved += self.redrive_some(shard, &redrive, &part).await?;
            }
        }
        Ok(moved)
    }

    async fn redrive_some(
        &self,
        shard: u16,
        redrive: &RedriveParams<'_>,
        part: &[&(usize, String)],
    ) -> Result<u64, Error> {
        let queue = redrive.queue;
        let keys = [self.keys.target(shard, queue), self.keys.dlq(shard, queue), self.keys.jobs(shard)];
        let mut call = Call::new(&self.scripts.redrive, &keys).arg(letter(queue)).arg(queue.name.as_str());
        for (index, entry) in part {
            let RedriveItem { job, letter, envelope } = &redrive.letters[*index];
            let tracked = Envelope::read(envelope.clone()).is_ok_and(|envelope| envelope.tracked());
            call.push(entry);
            call.push(job.as_str());
            call.push(&letter[..]);
            call.push(if tracked { "1" } else { "0" });
            call.push(&envelope[..]);
        }
        count(&self.link.call(shard, call).await?)
    }

    pub(crate) async fn delete_letters(&self, queue: &Queue, jobs: &[JobId]) -> Result<u64, Error> {
        let asked: Vec<&JobId> = jobs.iter().filter(|job| !job.is_task()).collect();
        let mut dropped = 0;
        for (shard, found) in self.find_letters(queue, &asked).await? {
            for part in found.chunks(BATCH) {
                let mut keys = self.keys.home(shard);
                keys.push(self.keys.dlq(shard, queue));
                let mut call = Call::new(&self.scripts.drop, &keys).arg(self.keys.channel());
                for (index, entry) in part {
                    call.push(entry);
                    call.push(asked[*index].as_str());
                }
                let mut parts = array(self.link.call(shard, call).await?).unwrap_or_default();
                let errands = Errand::all(parts.split_off(parts.len().min(1)));
                self.carry_on(shard, errands).await;
                dropped += count(parts.first().unwrap_or(&Value::Nil))?;
            }
        }
        Ok(dropped)
    }

    /// Where the letters of jobs are, by shard. One that another program wrote has no index entry and is looked
    /// for.
    async fn find_letters(&self, queue: &Queue, jobs: &[&JobId]) -> Result<Vec<(u16, Found)>, Error> {
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

fn count(answer: &Value) -> Result<u64, Error> {
    int(answer).and_then(|count| u64::try_from(count).ok()).ok_or_else(|| odd_answer("letters"))
}
