//! What a gateway has done, in figures, as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::desk::Desk;
use super::session::End;

/// The upper bounds of the buckets, in seconds: from what a good store takes to what a bad day is like.
const BOUNDS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// How long something took, each time.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// Those up to each bound and above the one before; the last beyond all.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Histogram {
    pub(crate) fn observe(&self, took: Duration) {
        let bucket = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    fn write(&self, page: &mut Page, name: &str, help: &str) {
        page.head(name, help, "histogram");
        let mut sum = 0;
        let bounds = BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bucket, bound) in self.buckets.iter().zip(bounds) {
            sum += bucket.load(Relaxed);
            page.value(&format!("{name}_bucket{{le=\"{bound}\"}}"), sum);
        }
        page.value(&format!("{name}_sum"), self.micros.load(Relaxed) as f64 / 1e6);
        page.value(&format!("{name}_count"), sum);
    }
}

/// What has happened so far.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Trips to the store for a browser.
    pub(crate) lease: Histogram,
    /// From dialling a browser to its answer.
    pub(crate) dial: Histogram,
    opened: AtomicU64,
    undialled: AtomicU64,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    ended: Mutex<BTreeMap<&'static str, u64>>,
    /// Bytes of sessions that have ended.
    bytes: (AtomicU64, AtomicU64),
}

impl Metrics {
    pub(crate) fn opened(&self) {
        self.opened.fetch_add(1, Relaxed);
    }

    /// A browser did not answer, or did not want the client.
    pub(crate) fn undialled(&self) {
        self.undialled.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self, code: &'static str) {
        *lock(&self.refused).entry(code).or_default() += 1;
    }

    pub(crate) fn ended(&self, end: End, (to_browser, to_client): (u64, u64)) {
        *lock(&self.ended).entry(end.word()).or_default() += 1;
        self.bytes.0.fetch_add(to_browser, Relaxed);
        self.bytes.1.fetch_add(to_client, Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All figures as a page of text.
pub(crate) fn page(desk: &Desk) -> String {
    let (metrics, mut page) = (&desk.metrics, Page::default());
    let (open, live) = desk.holdings.totals();
    page.one("sessions_open", "Sessions with a client.", "gauge", open);
    page.one("waiting", "Clients that wait for a browser here.", "gauge", desk.lines.count());
    page.one("store_reachable", "Whether the store answered last.", "gauge", u64::from(desk.is_reachable()));
    page.one("sessions_opened_total", "Sessions opened.", "counter", metrics.opened.load(Relaxed));
    page.one(
        "dials_failed_total",
        "Browsers that could not be had.",
        "counter",
        metrics.undialled.load(Relaxed),
    );
    let ends = End::ALL.map(End::word);
    page.many("sessions_ended_total", "Sessions ended, by why.", &lock(&metrics.ended), &ends);
    page.many("refused_total", "Requests refused, by why.", &lock(&metrics.refused), &[]);
    let sum = |counter: &AtomicU64, live| counter.load(Relaxed) + live;
    page.head("tidemill_gateway_bytes_total", "Bytes passed on.", "counter");
    page.value("tidemill_gateway_bytes_total{to=\"browser\"}", sum(&metrics.bytes.0, live.0));
    page.value("tidemill_gateway_bytes_total{to=\"client\"}", sum(&metrics.bytes.1, live.1));
    metrics.lease.write(&mut page, "tidemill_gateway_lease_seconds", "Asking the store for a browser.");
    metrics.dial.write(&mut page, "tidemill_gateway_dial_seconds", "Connecting to a browser.");
    page.0
}

/// A page of figures.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing into a text cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn one(&mut self, name: &str, help: &str, kind: &str, value: u64) {
        let name = format!("tidemill_gateway_{name}");
        self.head(&name, help, kind);
        self.value(&name, value);
    }

    /// A counter by reason; those of `always` are there from the beginning.
    fn many(
        &mut self,
        name: &str,
        help: &str,
        counts: &BTreeMap<&'static str, u64>,
        always: &[&'static str],
    ) {
        let name = format!("tidemill_gateway_{name}");
        self.head(&name, help, "counter");
        let mut all: BTreeMap<_, _> = always.iter().map(|reason| (*reason, 0)).collect();
        all.extend(counts);
        for (reason, count) in all {
            self.value(&format!("{name}{{reason=\"{reason}\"}}"), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up() {
        let (histogram, mut page) = (Histogram::default(), Page::default());
        [1, 3, 30_000].into_iter().for_each(|millis| histogram.observe(Duration::from_millis(millis)));
        histogram.write(&mut page, "x", "y");
        assert!(page.0.contains("x_bucket{le=\"0.001\"} 1\n") && page.0.contains("x_bucket{le=\"5\"} 2\n"));
        assert!(
            page.0.contains("x_bucket{le=\"+Inf\"} 3\n") && page.0.ends_with("x_sum 30.004\nx_count 3\n")
        );
    }
}
