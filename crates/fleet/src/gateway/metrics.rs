//! The gateway's metrics in Prometheus format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::session::SessionEnd;
use super::shared::GatewayShared;
use crate::histogram::Histogram;

/// The counters of a gateway.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// From dialling a browser to its response.
    pub(crate) dial_seconds: Histogram,
    opened: AtomicU64,
    failed_dials: AtomicU64,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    ended: Mutex<BTreeMap<&'static str, u64>>,
    /// Bytes of ended sessions.
    bytes: (AtomicU64, AtomicU64),
}

impl Metrics {
    pub(crate) fn record_opened(&self) {
        self.opened.fetch_add(1, Relaxed);
    }

    /// A browser did not answer, or refused the client.
    pub(crate) fn record_failed_dial(&self) {
        self.failed_dials.fetch_add(1, Relaxed);
    }

    pub(crate) fn record_refused(&self, code: &'static str) {
        *lock(&self.refused).entry(code).or_default() += 1;
    }

    pub(crate) fn record_ended(&self, end: SessionEnd, (to_browser, to_client): (u64, u64)) {
        *lock(&self.ended).entry(end.as_str()).or_default() += 1;
        self.bytes.0.fetch_add(to_browser, Relaxed);
        self.bytes.1.fetch_add(to_client, Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Renders all metrics.
pub(crate) fn render(shared: &GatewayShared) -> String {
    let (metrics, mut text) = (&shared.metrics, MetricsText::default());
    let (open, live) = shared.leases.sessions.totals();
    text.write_single("sessions_open", "Sessions with a client.", "gauge", open);
    text.write_single(
        "waiting",
        "Clients that wait for a browser here.",
        "gauge",
        shared.leases.waiters.count(),
    );
    text.write_single(
        "store_reachable",
        "Whether the store answered last.",
        "gauge",
        u64::from(shared.leases.is_store_reachable()),
    );
    text.write_single("sessions_opened_total", "Sessions opened.", "counter", metrics.opened.load(Relaxed));
    text.write_single(
        "dials_failed_total",
        "Browsers that could not be had.",
        "counter",
        metrics.failed_dials.load(Relaxed),
    );
    let reasons = SessionEnd::ALL.map(SessionEnd::as_str);
    text.write_by_reason("sessions_ended_total", "Sessions ended, by why.", &lock(&metrics.ended), &reasons);
    text.write_by_reason("refused_total", "Requests refused, by why.", &lock(&metrics.refused), &[]);
    let sum = |counter: &AtomicU64, live| counter.load(Relaxed) + live;
    text.write_header("tidemill_gateway_bytes_total", "Bytes passed on.", "counter");
    text.write_value("tidemill_gateway_bytes_total{to=\"browser\"}", sum(&metrics.bytes.0, live.0));
    text.write_value("tidemill_gateway_bytes_total{to=\"client\"}", sum(&metrics.bytes.1, live.1));
    text.write_histogram("lease_seconds", "Asking the store for a browser.", &shared.leases.lease_seconds);
    text.write_histogram("dial_seconds", "Connecting to a browser.", &metrics.dial_seconds);
    text.0
}

/// Metrics text.
#[derive(Debug, Default)]
struct MetricsText(String);

impl MetricsText {
    fn write_header(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn write_value(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn write_single(&mut self, name: &str, help: &str, kind: &str, value: u64) {
        let name = format!("tidemill_gateway_{name}");
        self.write_header(&name, help, kind);
        self.write_value(&name, value);
    }

    fn write_histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        let name = format!("tidemill_gateway_{name}");
        self.write_header(&name, help, "histogram");
        let mut count = 0;
        for (bound, below) in histogram.buckets() {
            self.write_value(&format!("{name}_bucket{{le=\"{bound}\"}}"), below);
            count = below;
        }
        self.write_value(&format!("{name}_sum"), histogram.sum_seconds());
        self.write_value(&format!("{name}_count"), count);
    }

    /// A counter by reason. The reasons in `always` are present from the start.
    fn write_by_reason(
        &mut self,
        name: &str,
        help: &str,
        counts: &BTreeMap<&'static str, u64>,
        always: &[&'static str],
    ) {
        let name = format!("tidemill_gateway_{name}");
        self.write_header(&name, help, "counter");
        let mut all: BTreeMap<_, _> = always.iter().map(|reason| (*reason, 0)).collect();
        all.extend(counts);
        for (reason, count) in all {
            self.write_value(&format!("{name}{{reason=\"{reason}\"}}"), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn buckets_add_up() {
        let (histogram, mut text) = (Histogram::default(), MetricsText::default());
        [1, 3, 30_000].into_iter().for_each(|millis| histogram.observe(Duration::from_millis(millis)));
        text.write_histogram("x", "y", &histogram);
        assert!(
            text.0.contains("gateway_x_bucket{le=\"0.001\"} 1\n")
                && text.0.contains("x_bucket{le=\"5\"} 2\n")
        );
        assert!(
            text.0.contains("x_bucket{le=\"+Inf\"} 3\n")
                && text.0.ends_with("gateway_x_sum 30.004\ntidemill_gateway_x_count 3\n")
        );
    }
}
