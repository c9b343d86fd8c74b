//! One live line per queue: its waiting jobs and this worker's counts.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use tidemill::Stats;
use tidemill::store::QueueInfo;
use tidemill::store::Store;
use tidemill::worker::{JobCounts, QueueCounts};

use super::rate::{Rate, per_second};
use crate::output::{Cell, Colour, Screen, Style, TextTable, thousands};

/// Update interval on a terminal.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(100);

/// Print interval without a terminal.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Width of the bars: a line then has just under 80 columns.
const BAR_COLUMNS: usize = 8;

/// The live view of a worker's queues.
pub(crate) struct QueueView {
    store: Arc<dyn Store>,
    stats: Stats,
    screen: Screen,
    started: Instant,
    /// The live lines.
    lines: Vec<ProgressBar>,
    /// The rate of finished jobs of each queue.
    rates: Vec<Rate>,
    /// The counts of the last plain line.
    last_printed: Option<(JobCounts, u64)>,
}

/// A queue: the worker's counts and the store's.
struct QueueRow {
    counts: QueueCounts,
    waiting: u64,
    scheduled: u64,
    rate: f64,
}

impl QueueView {
    pub(crate) fn new(store: Arc<dyn Store>, stats: Stats, screen: &Screen) -> Self {
        let (lines, rates) = (Vec::new(), Vec::new());
        Self {
            store,
            stats,
            screen: screen.clone(),
            started: Instant::now(),
            lines,
            rates,
            last_printed: None,
        }
    }

    /// Shows the queues until it is dropped.
    pub(crate) async fn run(mut self) -> Infallible {
        let period = if self.screen.is_live() { TERMINAL_INTERVAL } else { LOG_INTERVAL };
        let mut ticks = tokio::time::interval(period);
        loop {
            ticks.tick().await;
            // The worker reports an unavailable store; the view stays unchanged meanwhile.
            if let Ok(known) = self.store.list_queues().await {
                let rows = self.rows(&known);
                if self.screen.is_live() { self.draw(&rows) } else { self.print(&rows) }
            }
        }
    }

    fn rows(&mut self, known: &[QueueInfo]) -> Vec<QueueRow> {
        let (counts, now) = (self.stats.queues(), Instant::now());
        self.rates.resize_with(counts.len(), Rate::default);
        let row = |(counts, rate): (QueueCounts, &mut Rate)| {
            let info = known.iter().find(|info| info.queue == counts.queue);
            let (waiting, scheduled) = info.map_or((0, 0), |info| (info.ready, info.scheduled));
            QueueRow { rate: rate.at(now, counts.counts.done), waiting, scheduled, counts }
        };
        counts.into_iter().zip(&mut self.rates).map(row).collect()
    }

    fn draw(&mut self, rows: &[QueueRow]) {
        let table = table(rows, self.screen.style()).render(self.screen.style());
        let text: Vec<_> = table.lines().collect();
        while self.lines.len() < text.len() {
            self.lines.push(self.screen.line());
        }
        for (line, text) in self.lines.iter().zip(text) {
            line.set_message(text.to_owned());
        }
    }

    /// Prints one line, unless nothing has changed since the last one.
    fn print(&mut self, rows: &[QueueRow]) {
        let total = self.stats.total();
        let waiting: u64 = rows.iter().map(|row| row.waiting).sum();
        if self.last_printed == Some((total, waiting)) {
            return;
        }
        self.last_printed = Some((total, waiting));
        let scheduled: u64 = rows.iter().map(|row| row.scheduled).sum();
        let rate: f64 = rows.iter().map(|row| row.rate).sum();
        let seconds = self.started.elapsed().as_secs();
        let line = format!(
            "{seconds:>4}s  done {:<5} ready {waiting:<4} running {:<3} scheduled {scheduled:<3} retried {:<4} dead {:<3} {}",
            thousands(total.done),
            total.running,
            total.retried,
            total.dead,
            per_second(rate),
        );
        self.screen.print_line(&line);
    }
}

fn table(rows: &[QueueRow], style: &Style) -> TextTable {
    let mut table =
        TextTable::new(&["QUEUE", "READY", "LATER", "RUNNING", "DONE", "RETRIED", "DEAD", "JOBS/S", ""]);
    for row in rows {
        let counts = row.counts.counts;
        table.row(vec![
            Cell::text(row.counts.queue.name.as_str()),
            Cell::number(row.waiting),
            Cell::number(row.scheduled).colour_unless_zero(Colour::Blue),
            Cell::number(counts.running).colour_unless_zero(Colour::Yellow),
            Cell::number(counts.done).colour_unless_zero(Colour::Green),
            Cell::number(counts.retried).colour_unless_zero(Colour::Yellow),
            Cell::number(counts.dead).colour_unless_zero(Colour::Red),
            Cell::number(row.rate.round() as u64),
            Cell::text(bar(row, style)).colour(Colour::Green),
        ]);
    }
    table
}

/// The share of the queue's known jobs that have ended.
fn bar(row: &QueueRow, style: &Style) -> String {
    let counts = row.counts.counts;
    let over = counts.done + counts.dead + counts.cancelled + counts.discarded;
    let all = over + counts.running + row.waiting + row.scheduled;
    let full =
        (over * BAR_COLUMNS as u64).checked_div(all).and_then(|full| usize::try_from(full).ok()).unwrap_or(0);
    style.symbol("█", "#").repeat(full) + &style.symbol("░", ".").repeat(BAR_COLUMNS - full)
}
