//! The `tracing` span around each handler: its log lines carry the job's id, kind, queue, attempt
//! and correlation id.

use tracing::{Instrument, field};

use crate::handler::AttemptFuture;
use crate::leases::ClaimedJob;

/// Runs an attempt inside the span of its job. Without a subscriber that wants the span, returns
/// the attempt unchanged: the check is one load of an atomic.
pub(crate) fn in_job_span(job: &ClaimedJob, attempt: AttemptFuture) -> AttemptFuture {
    let envelope = &job.envelope;
    let span = tracing::info_span!(
        target: "tidemill::job",
        "job",
        job_id = %envelope.id(),
        kind = %envelope.kind(),
        queue = %job.lease.queue.name,
        attempt = envelope.attempts().saturating_add(1),
        correlation_id = field::Empty,
    );
    if span.is_disabled() {
        return attempt;
    }
    if let Some(id) = envelope.correlation_id() {
        span.record("correlation_id", id);
    }
    Box::pin(attempt.instrument(span))
}
