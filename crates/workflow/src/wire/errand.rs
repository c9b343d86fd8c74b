//! Errands: what a run wants done to other runs, which may lie in other shards. Each is a job on the queue of the run's
//! own tasks, made by the commit that asked for it.

use serde::{Deserialize, Serialize};
use tidemill_core::envelope::{ActivityTerms, DEFAULT_MAX_ATTEMPTS, JobOptions, Meta};
use tidemill_core::store::runs::Effect;
use tidemill_core::store::{Due, NewJob};
use tidemill_core::workflow::{Json, Parent, Requester, RunEvent, RunId, StartChild, Topic};
use tidemill_core::{JobId, Kind, Queue, Timestamp};

/// The kind of errands.
pub(crate) const ERRAND: &str = "tidemill/errand";

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Errand {
    /// Starts a child and tells the parent that it exists, if it wants to hear that.
    Start(Box<StartChild>),
    /// Asks a child to end.
    Cancel {
        run: RunId,
        /// Whose child it is. The errand that starts it may still be under way.
        parent: Parent,
        reason: String,
    },
    /// Ends a child.
    Terminate { run: RunId, parent: Parent, reason: String },
    /// Sends a signal and tells the sender whether it arrived.
    Signal { run: RunId, name: Topic, payload: Json },
    /// Tells a parent of its child's end.
    Tell { run: RunId, event: RunEvent },
}

/// The errand that starts this child.
pub(crate) fn started_by(parent: &Parent) -> JobId {
    parent.run.part(format_args!("c{}", parent.seq))
}

impl Errand {
    /// The job that does it for `run`. Whoever waits for what it says gives the number of the command.
    pub(crate) fn effect(&self, run: &RunId, seq: u64, queue: &Queue, now: Timestamp) -> Effect {
        let requester = Requester { run: run.clone(), seq };
        let waits = matches!(self, Self::Start(_) | Self::Signal { .. });
        let kind = Kind::new(ERRAND).unwrap_or_else(|_| unreachable!("it is a valid kind"));
        let meta =
            Meta { correlation_id: Some(run.as_str()), user_id: None, enqueue_ts: now, source: "workflow" };
        let draft = JobOptions {
            kind: &kind,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            timeout: None,
            keep_result: None,
            tracked: true,
            terms: waits.then_some(ActivityTerms { requester: &requester, backoff: None, heartbeat: None }),
            meta,
        };
        let id = self.id(run, seq);
        // Everything in it is text, numbers, or JSON already: it always serialises.
        let envelope = draft.template().fill(&id, self).map(|(bytes, _)| bytes).unwrap_or_default();
        let links = Default::default();
        let job = NewJob { id, envelope, due: Due::Now, tracked: true, fresh: false, links };
        Effect::Job { queue: queue.clone(), job }
    }

    fn id(&self, run: &RunId, seq: u64) -> JobId {
        match self {
            Self::Start(_) => run.part(format_args!("c{seq}")),
            Self::Cancel { .. } => run.part(format_args!("x{seq}")),
            Self::Terminate { .. } => run.part(format_args!("k{seq}")),
            Self::Signal { .. } => run.part(format_args!("s{seq}")),
            Self::Tell { .. } => run.part("told"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::Envelope;
    use tidemill_core::workflow::WorkflowName;

    use super::*;

    #[test]
    fn an_errand_reads_back_and_tells_who_asked() {
        let (run, now): (RunId, _) = ("order-7".parse().unwrap(), Timestamp(0));
        let queue = WorkflowName::new("order").unwrap().queue(None);
        let (name, payload) = ("go".parse().unwrap(), Json::from_value(&1).unwrap());
        let errand = Errand::Signal { run: "other".parse().unwrap(), name, payload };
        let Effect::Job { job, .. } = errand.effect(&run, 4, &queue, now) else { panic!() };
        let envelope = Envelope::read(job.envelope).unwrap();
        assert_eq!(envelope.requester(), Some(&Requester { run: run.clone(), seq: 4 }));
        assert_eq!(serde_json::from_slice::<Errand>(envelope.payload()).unwrap(), errand);
        assert_ne!(job.id, run.part(4));
    }
}
