//! One line per queue: what waits in it and what this worker has done with it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use tidemill::store::QueueInfo;
use tidemill::{JobCounts, QueueCounts, Stats, Store};

use super::rate::{Rate, per_second};
use crate::output::{Cell, Colour, Screen, Style, Table, thousands};

/// How often the lines change on a terminal.
const ON_TERMINAL: Duration = Duration::from_millis(100);

/// How often a line is written elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// How wide the bars are: with them a line has just under 80 columns.
const BAR: usize = 8;

/// The live view of a worker's queues.
pub(crate) struct QueueView {
    store: Arc<dyn Store>,
    stats: Stats,
    screen: Screen,
    begun: Instant,
    /// The lines on the terminal.
    lines: Vec<ProgressBar>,
    /// How fast each queue gets its jobs done.
    rates: Vec<Rate>,
    /// What the last plain line said.
    said: Option<(JobCounts, u64)>,
}

/// A queue, from both sides.
struct Row {
    ours: QueueCounts,
    waiting: u64,
    scheduled: u64,
    rate: f64,
}

impl QueueView {
    pub(crate) fn new(store: Arc<dyn Store>, stats: Stats, screen: &Screen) -> Self {
        let (lines, rates) = (Vec::new(), Vec::new());
        Self { store, stats, screen: screen.clone(), begun: Instant::now(), lines, rates, said: None }
    }

    /// Shows the queues for as long as it is polled.
    pub(crate) async fn run(mut self) -> Infallible {
        let period = if self.screen.is_live() { ON_TERMINAL } else { ELSEWHERE };
        let mut ticks = tokio::time::interval(period);
        loop {
            ticks.tick().await;
            // A store that is away is the worker's to report; the view stands still meanwhile.
            if let Ok(known) = self.store.list_queues().await {
                let rows = self.rows(&known);
                if self.screen.is_live() { self.draw(&rows) } else { self.say(&rows) }
            }
        }
    }

    fn rows(&mut self, known: &[QueueInfo]) -> Vec<Row> {
        let (ours, now) = (self.stats.queues(), Instant::now());
        self.rates.resize_with(ours.len(), Rate::default);
        let row = |(ours, rate): (QueueCounts, &mut Rate)| {
            let info = known.iter().find(|info| info.queue == ours.queue);
            let (waiting, scheduled) = info.map_or((0, 0), |info| (info.ready, info.scheduled));
            Row { rate: rate.at(now, ours.counts.done), waiting, scheduled, ours }
        };
        ours.into_iter().zip(&mut self.rates).map(row).collect()
    }

    fn draw(&mut self, rows: &[Row]) {
        let table = table(rows, self.screen.style()).render(self.screen.style());
        let text: Vec<_> = table.lines().collect();
        while self.lines.len() < text.len() {
            self.lines.push(self.screen.line());
        }
        for (line, text) in self.lines.iter().zip(text) {
            line.set_message(text.to_owned());
        }
    }

    /// Says it in one line, unless nothing has happened since the last one.
    fn say(&mut self, rows: &[Row]) {
        let total = self.stats.total();
        let waiting: u64 = rows.iter().map(|row| row.waiting).sum();
        if self.said == Some((total, waiting)) {
            return;
        }
        self.said = Some((total, waiting));
        let scheduled: u64 = rows.iter().map(|row| row.scheduled).sum();
        let rate: f64 = rows.iter().map(|row| row.rate).sum();
        let seconds = self.begun.elapsed().as_secs();
        let line = format!(
            "{seconds:>4}s  done {:<5} ready {waiting:<4} running {:<3} scheduled {scheduled:<3} retried {:<4} dead {:<3} {}",
            thousands(total.done),
            total.running,
            total.retried,
            total.dead,
            per_second(rate),
        );
        self.screen.say(&line);
    }
}

fn table(rows: &[Row], style: &Style) -> Table {
    let mut table =
        Table::new(&["QUEUE", "READY", "LATER", "RUNNING", "DONE", "RETRIED", "DEAD", "JOBS/S", ""]);
    for row in rows {
        let counts = row.ours.counts;
        table.row(vec![
            Cell::text(row.ours.queue.name.as_str()),
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

/// How much of what is known of a queue is over.
fn bar(row: &Row, style: &Style) -> String {
    let counts = row.ours.counts;
    let over = counts.done + counts.dead + counts.cancelled + counts.discarded;
    let all = over + counts.running + row.waiting + row.scheduled;
    let full = (over * BAR as u64).checked_div(all).and_then(|full| usize::try_from(full).ok()).unwrap_or(0);
    style.symbol("█", "#").repeat(full) + &style.symbol("░", ".").repeat(BAR - full)
}
