//! Acting on one job wherever it is: a script that is told where the job was seen, and does nothing if it has moved.

use redis::Value;
use tidemill_core::{Error, JobId};

use crate::chains::outbox::Errand;
use crate::connection::Call;
use crate::connection::reply::{array, text};
use crate::connection::script::Script;
use crate::error::odd_answer;
use crate::jobs::locate::Place;
use crate::store::RedisStore;

/// A job that moves between the look and the act is looked for again, this often.
pub(crate) const TRIES: usize = 8;

/// What such a script answers: a word and, for some, what it is about.
pub(crate) struct Acted {
    pub(crate) word: String,
    pub(crate) about: Option<String>,
}

impl RedisStore {
    /// The keys of the place where a job was seen.
    pub(crate) fn keys_of_place(&self, job: &JobId, place: &Place) -> Vec<String> {
        let (shard, queue) = (place.shard, &place.queue);
        let mut keys = self.keys.home(shard);
        keys.extend([
            self.keys.target(shard, queue),
            self.keys.scheduled(shard, queue),
            self.keys.blocked(shard, queue),
            self.keys.dlq(shard, queue),
            self.keys.cancelled(shard, queue),
            self.keys.lock(shard, queue, job),
            self.keys.running(shard, queue),
            self.keys.dropped(shard, queue),
            self.keys.record(shard, job),
            self.keys.waits(shard, place.mark().unwrap_or_default()),
        ]);
        keys
    }

    /// A call of a script that acts at a place. More arguments may follow.
    pub(crate) fn call_at<'a>(
        &self,
        (script, keys): (&'a Script, &[String]),
        job: &JobId,
        place: &Place,
    ) -> Call<'a> {
        Call::new(script, keys)
            .arg(self.keys.channel())
            .arg(job.as_str())
            .arg(&place.indexed[..])
            .arg(place.letter.map(String::from).unwrap_or_default())
            .arg(&place.reference[..])
            .arg(self.group(&place.queue))
    }

    /// Calls such a script and does what it leaves to be done: errands, and taking back what a blocked job that
    /// is gone was registered with.
    pub(crate) async fn act(&self, call: Call<'_>, place: &Place) -> Result<Acted, Error> {
        let odd = || odd_answer("a script about one job");
        let mut parts = array(self.link.call(place.shard, call).await?).ok_or_else(odd)?.into_iter();
        let word = parts.next().and_then(text).ok_or_else(odd)?;
        if word == "awaited" {
            return Ok(Acted { word, about: parts.next().and_then(text) });
        }
        let rest: Vec<Value> = parts.collect();
        let end = rest.iter().position(|part| text(part.clone()).is_some_and(|text| text.is_empty()));
        let (errands, registered) = rest.split_at(end.unwrap_or(rest.len()));
        self.carry_on(place.shard, Errand::all(errands.iter().cloned())).await;
        let registered = registered.iter().filter_map(|part| position(&text(part.clone())?));
        if let Some((job, mark)) = place.wait() {
            self.unregister(mark, (&place.queue, &job), registered.collect::<Vec<_>>()).await;
        }
        Ok(Acted { word, about: None })
    }
}

/// `POSITION CHAIN`.
fn position(text: &str) -> Option<(u32, JobId)> {
    let (position, chain) = text.split_once(' ')?;
    Some((position.parse().ok()?, JobId::new(chain).ok()?))
}

/// A job that kept moving while somebody wanted to act on it.
pub(crate) fn keeps_moving(job: &JobId) -> Error {
    Error::Unavailable { message: format!("job {job} keeps moving"), source: None }
}
