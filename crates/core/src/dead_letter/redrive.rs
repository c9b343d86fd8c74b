//! Redriving and dropping of dead letters: by id or by filter, page by page.

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

/// Which dead letters. All conditions that are set must hold; an empty filter matches all.
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
    /// Matches all letters.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only these jobs.
    pub fn jobs(mut self, jobs: impl IntoIterator<Item = JobId>) -> Self {
        self.jobs.extend(jobs);
        self
    }

    /// Only jobs of this kind.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Only jobs that died for this reason.
    pub fn reason(mut self, reason: impl ToString) -> Self {
        self.reason = Some(reason.to_string());
        self
    }

    /// Only jobs whose last error contains this text.
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.error = Some(text.into());
        self
    }

    /// Only jobs that died before this time.
    pub fn before(mut self, time: Timestamp) -> Self {
        self.before = Some(time);
        self
    }

    /// Whether the filter matches `letter`.
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

/// The envelope with which a dead job starts again: without attempts and without the fields of the
/// letter. `None` for bytes that are not an envelope, because they would only die again.
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

/// Redrives the letters of `queue` that match `filter`, each job once: a job that dies again
/// meanwhile stays dead. Returns how many moved. A letter that is not an envelope is skipped. A
/// repeated store call does not move a letter that the job has got since: see
/// [`RedriveItem::letter`].
///
/// # Errors
/// Returns the first error of the store. Letters before it have been moved.
pub async fn redrive(store: &dyn Store, queue: &Queue, filter: &DeadLetterFilter) -> Result<u64, Error> {
    let (mut moved, mut tried) = (0, HashSet::new());
    let mut pages = LetterPages::new(store, queue, filter);
    while let Some(mut page) = pages.next().await? {
        // Without this the loop would not end: new letters are appended behind those that it has
        // yet to reach.
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

/// Deletes the letters of `queue` that match `filter`. Returns how many there were. Letters of
/// workflow tasks are kept, because their runs would wait for ever.
///
/// # Errors
/// [`Error::Invalid`] if the filter names a workflow task. Otherwise the first error of the store.
pub async fn drop_dead(store: &dyn Store, queue: &Queue, filter: &DeadLetterFilter) -> Result<u64, Error> {
    filter.jobs.iter().filter(|job| job.is_task()).try_for_each(check_removal)?;
    let mut dropped = 0;
    let mut pages = LetterPages::new(store, queue, filter);
    while let Some(page) = pages.next().await? {
        let chosen: Vec<_> = page.into_iter().map(|letter| letter.job).collect();
        if !chosen.is_empty() {
            let drop = || store.drop_dead(queue, &chosen);
            dropped += all_if_unknown(repeat_until_answered(store.clock(), drop).await?, chosen.len());
        }
    }
    Ok(dropped)
}

/// The letters of `queue` that `filter` names by id and that match it.
pub(crate) async fn letters_by_id(
    store: &dyn Store,
    queue: &Queue,
    filter: &DeadLetterFilter,
) -> Result<Vec<DeadLetter>, Error> {
    Ok(LetterPages::new(store, queue, filter).next().await?.unwrap_or_default())
}

/// How many letters of a page are gone. After a call with an unknown result, all of them are: what
/// the repetition does not find, the first call has taken.
fn all_if_unknown(answer: Answered<u64>, page: usize) -> u64 {
    if answer.after_unknown { page as u64 } else { answer.value }
}

/// Iterates over the dead letters of a queue that match a filter. With ids in the filter it looks
/// them up; only without does it list all.
struct LetterPages<'a> {
    store: &'a dyn Store,
    queue: &'a Queue,
    filter: &'a DeadLetterFilter,
    cursor: Option<String>,
    ended: bool,
}

impl<'a> LetterPages<'a> {
    fn new(store: &'a dyn Store, queue: &'a Queue, filter: &'a DeadLetterFilter) -> Self {
        Self { store, queue, filter, cursor: None, ended: false }
    }

    async fn next(&mut self) -> Result<Option<Vec<DeadLetter>>, Error> {
        if self.ended {
            return Ok(None);
        }
        let infos = if self.filter.jobs.is_empty() { self.page().await? } else { self.by_id().await? };
        let letters = infos.iter().map(DeadLetter::from_stored);
        Ok(Some(letters.filter(|letter| self.filter.matches(letter)).collect()))
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
        let mut found = Vec::with_capacity(self.filter.jobs.len());
        for job in &self.filter.jobs {
            let info = until_answered(self.store.clock(), || self.store.get_job(job)).await?;
            found.extend(
                info.filter(|info| info.state == JobState::Dead && info.queue.as_ref() == Some(self.queue)),
            );
        }
        Ok(found)
    }
}
