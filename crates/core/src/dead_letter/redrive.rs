//! Bringing jobs back from the dead letters, or dropping them: by id or by filter, page by page.

use std::collections::HashSet;

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::dead_letter::DeadLetter;
use crate::envelope::Edit;
use crate::job::JobState;
use crate::name::{JobId, Kind, Queue};
use crate::retry::{Answered, repeat_until_answered, until_answered};
use crate::store::reserved_ids::check_removal;
use crate::store::{Error, JobInfo, ListJobsParams, RedriveItem, RedriveParams, Store};

const PAGE_LETTERS: usize = 256;

/// Which letters. Every condition that is set must hold; an empty filter takes all.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterFilter {
    /// These jobs.
    pub jobs: Vec<JobId>,
    /// Jobs of this kind.
    pub kind: Option<Kind>,
    /// Jobs that died for this reason.
    pub reason: Option<String>,
    /// Jobs whose last error contains this text.
    pub error: Option<String>,
    /// Jobs that died before this time.
    pub before: Option<Timestamp>,
}

impl DeadLetterFilter {
    /// Whether `letter` is meant.
    pub fn matches(&self, letter: &DeadLetter) -> bool {
        let kind = |kind: &Kind| letter.envelope().is_ok_and(|envelope| envelope.kind() == kind);
        let error = |part: &String| letter.last_error.as_ref().is_some_and(|error| error.contains(part));
        (self.jobs.is_empty() || self.jobs.contains(&letter.job))
            && self.kind.as_ref().is_none_or(kind)
            && self.reason.as_ref().is_none_or(|reason| letter.reason.to_string() == *reason)
            && self.error.as_ref().is_none_or(error)
            && self.before.is_none_or(|time| letter.at < time)
    }
}

/// The envelope a dead job starts anew with: no attempts counted, nothing left of its death. `None` for
/// bytes that never were an envelope: they would only die again.
pub fn revived_envelope(letter: &DeadLetter) -> Option<Bytes> {
    let envelope = letter.envelope().ok()?;
    let edits = [
        Edit::Number("attempts", 0),
        Edit::Remove("crashes"),
        Edit::Remove("dlq_ts"),
        Edit::Remove("dlq_reason"),
        Edit::Remove("last_error"),
    ];
    envelope.edit(&edits).ok()
}

/// Redrives the letters of `queue` that `letters` takes, each job once: one that dies again meanwhile stays dead. Returns how
/// many moved. A letter that is no envelope stays where it is. A repeated call does not find a letter that the job has got
/// since: see [`RedriveItem::letter`].
pub async fn redrive(store: &dyn Store, queue: &Queue, letters: &DeadLetterFilter) -> Result<u64, Error> {
    let (mut moved, mut tried) = (0, HashSet::new());
    let mut pages = LetterPages::new(store, queue, letters);
    while let Some(mut page) = pages.next().await? {
        // Otherwise the walk would not end: new letters come behind those that it has yet to reach.
        page.retain(|letter| tried.insert(letter.job.clone()));
        let chosen: Vec<_> = page
            .into_iter()
            .filter_map(|letter| {
                let envelope = revived_envelope(&letter)?;
                Some(RedriveItem { job: letter.job, letter: letter.bytes, envelope })
            })
            .collect();
        if !chosen.is_empty() {
            let redrive = || store.redrive(RedriveParams { queue, letters: &chosen });
            moved += all_if_unknown(repeat_until_answered(store.clock(), redrive).await?, chosen.len());
        }
    }
    Ok(moved)
}

/// Drops the letters of `queue` that `letters` takes, for good. Returns how many there were. Those of tasks stay, and one that
/// is asked for by its id is refused: its run is there, and would wait for it for ever.
pub async fn drop_dead(store: &dyn Store, queue: &Queue, letters: &DeadLetterFilter) -> Result<u64, Error> {
    letters.jobs.iter().filter(|job| job.is_task()).try_for_each(check_removal)?;
    let mut dropped = 0;
    let mut pages = LetterPages::new(store, queue, letters);
    while let Some(page) = pages.next().await? {
        let chosen: Vec<_> = page.into_iter().map(|letter| letter.job).collect();
        if !chosen.is_empty() {
            let drop = || store.drop_dead(queue, &chosen);
            dropped += all_if_unknown(repeat_until_answered(store.clock(), drop).await?, chosen.len());
        }
    }
    Ok(dropped)
}

/// How many letters of a page are gone. If the first call got no answer, what the repeat does not find is what that has
/// taken.
fn all_if_unknown(answer: Answered<u64>, page: usize) -> u64 {
    if answer.after_unknown { page as u64 } else { answer.value }
}

/// Walks the dead letters of a queue that a filter takes. Letters asked for by id are looked up; only a
/// filter without ids walks them all.
struct LetterPages<'a> {
    store: &'a dyn Store,
    queue: &'a Queue,
    letters: &'a DeadLetterFilter,
    cursor: Option<String>,
    ended: bool,
}

impl<'a> LetterPages<'a> {
    fn new(store: &'a dyn Store, queue: &'a Queue, letters: &'a DeadLetterFilter) -> Self {
        Self { store, queue, letters, cursor: None, ended: false }
    }

    async fn next(&mut self) -> Result<Option<Vec<DeadLetter>>, Error> {
        if self.ended {
            return Ok(None);
        }
        let infos = if self.letters.jobs.is_empty() { self.page().await? } else { self.by_id().await? };
        let letters = infos.iter().map(DeadLetter::from_stored);
        Ok(Some(letters.filter(|letter| self.letters.matches(letter)).collect()))
    }

    async fn page(&mut self) -> Result<Vec<JobInfo>, Error> {
        let (queue, state, limit) = (self.queue, JobState::Dead, PAGE_LETTERS);
        let list =
            || self.store.list_jobs(ListJobsParams { queue, state, cursor: self.cursor.clone(), limit });
        let page = until_answered(self.store.clock(), list).await?;
        self.ended = page.next.is_none();
        self.cursor = page.next;
        Ok(page.items)
    }

    async fn by_id(&mut self) -> Result<Vec<JobInfo>, Error> {
        self.ended = true;
        let mut found = Vec::with_capacity(self.letters.jobs.len());
        for job in &self.letters.jobs {
            let info = until_answered(self.store.clock(), || self.store.get_job(job)).await?;
            found.extend(
                info.filter(|info| info.state == JobState::Dead && info.queue.as_ref() == Some(self.queue)),
            );
        }
        Ok(found)
    }
}
