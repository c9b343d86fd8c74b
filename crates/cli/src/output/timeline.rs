//! A journal as a timeline: commands as bars and events as points, on one scale.

use std::collections::BTreeMap;
use std::time::Duration;

use tidemill::Timestamp;
use tidemill::workflow::{
    ActivityFailure, ActivityResult, ChildResult, Command, Commit, Entry, EntryContent, RunEnd, RunEvent,
    SignalDelivery, UpdateResult,
};

use super::{Colour, Style, printable};

/// Columns of the scale if the width of the terminal is unknown.
const DEFAULT_SCALE_COLUMNS: usize = 32;

/// Maximum length of a row's label.
const MAX_LABEL_COLUMNS: usize = 24;

/// One row: an operation with a duration, or a point in time.
#[derive(Debug)]
struct TimelineRow {
    from: Timestamp,
    /// `None` while it is open.
    until: Option<Timestamp>,
    shape: RowShape,
    label: String,
    note: String,
    colour: Colour,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowShape {
    Bar,
    Point,
}

/// Draws a journal. Open bars end at `now`.
pub(crate) fn draw(entries: &[Entry], now: Timestamp, style: &Style) -> String {
    let rows = rows(entries);
    let Some(started) = entries.first().map(|entry| entry.at) else {
        return "the journal is empty\n".to_owned();
    };
    let ended = entries
        .iter()
        .any(|entry| matches!(&entry.content, EntryContent::Commit(Commit { end: Some(_), .. })));
    let last = entries.last().map_or(now, |entry| entry.at);
    let scale = Scale::new(started, if ended { last } else { now.max(last) }, style);
    let label = rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0).min(MAX_LABEL_COLUMNS);
    rows.iter().map(|row| draw_row(row, &scale, label, style)).collect()
}

fn draw_row(row: &TimelineRow, scale: &Scale, label: usize, style: &Style) -> String {
    let offset = format_span(scale.started.until(row.from));
    let took = match (row.shape, row.until) {
        (RowShape::Point, _) => String::new(),
        (RowShape::Bar, Some(until)) => format_span(row.from.until(until)),
        (RowShape::Bar, None) => "…".to_owned(),
    };
    let name = format!("{:<label$}", cut(&row.label, label));
    let bar = style.paint(row.colour, &scale.bar(row, style));
    let head = format!("{offset:>9}  {}  {bar}  {took:>8}  ", style.paint(Colour::Bold, &name));
    let room = style.width.map_or(usize::MAX, |width| width.saturating_sub(25 + label + scale.columns));
    format!("{head}{}", cut(&row.note, room)).trim_end().to_owned() + "\n"
}

struct Scale {
    started: Timestamp,
    length: f64,
    columns: usize,
}

impl Scale {
    fn new(started: Timestamp, end: Timestamp, style: &Style) -> Self {
        let columns = style.width.map_or(DEFAULT_SCALE_COLUMNS, |width| (width / 3).clamp(10, 60));
        Self { started, length: started.until(end).as_secs_f64().max(0.001), columns }
    }

    fn column(&self, at: Timestamp) -> usize {
        let share = self.started.until(at).as_secs_f64() / self.length;
        ((share * self.columns as f64) as usize).min(self.columns - 1)
    }

    fn bar(&self, row: &TimelineRow, style: &Style) -> String {
        let (from, last) = (self.column(row.from), self.columns - 1);
        let (to, open) = match (row.shape, row.until) {
            (RowShape::Point, _) => return self.pad_to(from, style.symbol("◆", "*")),
            (RowShape::Bar, Some(until)) => (self.column(until), false),
            (RowShape::Bar, None) => (last, true),
        };
        let mut bar = style.symbol("━", "=").repeat(to - from + 1);
        if open {
            bar = style.symbol("━", "=").repeat(to - from) + style.symbol("╸", ">");
        }
        self.pad_to(from, &bar)
    }

    fn pad_to(&self, column: usize, what: &str) -> String {
        let after = self.columns.saturating_sub(column + what.chars().count());
        format!("{}{what}{}", " ".repeat(column), " ".repeat(after))
    }
}

/// The rows of a journal, in order of their start.
fn rows(entries: &[Entry]) -> Vec<TimelineRow> {
    let (mut rows, mut open) = (Vec::new(), BTreeMap::new());
    for entry in entries {
        match &entry.content {
            EntryContent::Event(event) => add_event(&mut rows, &mut open, entry.at, event),
            EntryContent::Commit(commit) => add_commands(&mut rows, &mut open, entry.at, commit),
        }
    }
    rows
}

fn add_event(rows: &mut Vec<TimelineRow>, open: &mut BTreeMap<u64, usize>, at: Timestamp, event: &RunEvent) {
    let mut close = |seq: u64, note: String, colour: Colour| {
        if let Some(row) = open.remove(&seq).and_then(|index| rows.get_mut(index)) {
            (row.until, row.note, row.colour) = (Some(at), note, colour);
        }
    };
    match event {
        RunEvent::ActivityDone { seq, result } => {
            let (note, colour) = activity_end(result);
            close(*seq, note, colour);
        }
        RunEvent::TimerFired { seq } => close(*seq, "fired".to_owned(), Colour::Green),
        RunEvent::ChildDone { seq, result } => {
            let (note, colour) = child_end(result);
            close(*seq, note, colour);
        }
        RunEvent::SignalSent { seq, result: SignalDelivery::Ok } => {
            close(*seq, "arrived".to_owned(), Colour::Green)
        }
        RunEvent::SignalSent { seq, result: SignalDelivery::Failed { message } } => {
            close(*seq, message.clone(), Colour::Red)
        }
        RunEvent::ChildStarted { .. } => {}
        RunEvent::Started(started) => {
            rows.push(point(at, "started", &format!("input {}", started.input.as_str())))
        }
        RunEvent::Signal(signal) => {
            rows.push(point(at, &format!("signal {}", signal.name), signal.payload.as_str()));
        }
        RunEvent::CancelRequested { reason } => {
            rows.push(point(at, "cancel requested", reason.as_deref().unwrap_or_default()));
        }
        RunEvent::Update { name, payload, .. } => {
            rows.push(point(at, &format!("update {name}"), payload.as_str()));
        }
    }
}

fn add_commands(
    rows: &mut Vec<TimelineRow>,
    open: &mut BTreeMap<u64, usize>,
    at: Timestamp,
    commit: &Commit,
) {
    for command in &commit.commands {
        let mut begin = |seq: u64, label: String, note: String| {
            open.insert(seq, rows.len());
            let colour = Colour::Yellow;
            rows.push(TimelineRow {
                from: at,
                until: None,
                shape: RowShape::Bar,
                label,
                note: printable(&note),
                colour,
            });
        };
        match command {
            Command::ScheduleActivity(activity) => {
                begin(activity.seq, activity.name.to_string(), format!("input {}", activity.input.as_str()));
            }
            Command::StartTimer { seq, due_ms } => {
                begin(*seq, "timer".to_owned(), format!("until {}", Timestamp(*due_ms)));
            }
            Command::StartChild(child) => {
                begin(child.seq, format!("child {}", child.workflow), format!("run {}", child.run));
            }
            Command::SignalRun { seq, run, name, .. } => {
                begin(*seq, format!("signal {name} →"), format!("run {run}"));
            }
            Command::CancelActivity { seq } | Command::CancelTimer { seq } | Command::CancelChild { seq } => {
                if let Some(row) = open.remove(seq).and_then(|index| rows.get_mut(index)) {
                    (row.until, row.note, row.colour) = (Some(at), "cancelled".to_owned(), Colour::Dim);
                }
            }
            Command::SideEffect { value, .. } => rows.push(point(at, "side effect", value.as_str())),
            Command::LocalActivity { name, result, .. } => {
                let (note, colour) = activity_end(result);
                rows.push(TimelineRow { colour, ..point(at, &format!("local {name}"), &note) });
            }
            Command::TooLarge { what, size, limit, .. } => {
                let note = format!("{what} has {size} bytes, and at most {limit} are allowed");
                rows.push(TimelineRow { colour: Colour::Red, ..point(at, "too large", &note) });
            }
            Command::Patch { id } => rows.push(point(at, &format!("patch {id}"), "")),
            Command::SearchAttributes { values } => {
                let pairs: Vec<_> =
                    values.iter().map(|(name, value)| format!("{name}={}", value.as_str())).collect();
                rows.push(point(at, "attributes", &pairs.join(" ")));
            }
            Command::UpdateDone { result, .. } => rows.push(match result {
                UpdateResult::Ok(output) => point(at, "update answered", output.as_str()),
                UpdateResult::Failed { message } => point(at, "update refused", message),
            }),
        }
    }
    if let Some(end) = &commit.end {
        rows.push(end_row(at, end));
    }
}

fn end_row(at: Timestamp, end: &RunEnd) -> TimelineRow {
    let (label, note, colour) = match end {
        RunEnd::Completed(output) => ("completed", output.as_str(), Colour::Green),
        RunEnd::Failed { message } => ("failed", message.as_str(), Colour::Red),
        RunEnd::Cancelled => ("cancelled", "", Colour::Dim),
        RunEnd::ContinuedAsNew { input, .. } => ("continued as new", input.as_str(), Colour::Blue),
    };
    TimelineRow { colour, ..point(at, label, note) }
}

fn activity_end(end: &ActivityResult) -> (String, Colour) {
    match end {
        ActivityResult::Ok(output) => (printable(&format!("ok {}", output.as_str())), Colour::Green),
        ActivityResult::Failed(ActivityFailure { message, attempts, .. }) => {
            let tries = if *attempts > 1 { format!(" after {attempts} attempts") } else { String::new() };
            (printable(&format!("failed{tries}: {message}")), Colour::Red)
        }
    }
}

fn child_end(end: &ChildResult) -> (String, Colour) {
    match end {
        ChildResult::Ok(output) => (printable(&format!("ok {}", output.as_str())), Colour::Green),
        ChildResult::Failed { message } => (printable(&format!("failed: {message}")), Colour::Red),
        ChildResult::Cancelled => ("cancelled".to_owned(), Colour::Dim),
        ChildResult::Terminated => ("terminated".to_owned(), Colour::Red),
    }
}

fn point(at: Timestamp, label: &str, note: &str) -> TimelineRow {
    TimelineRow {
        from: at,
        until: Some(at),
        shape: RowShape::Point,
        label: printable(label),
        note: printable(note),
        colour: Colour::Cyan,
    }
}

/// Formats a duration with three digits.
pub(crate) fn format_span(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        0.0..1.0 => format!("{} ms", duration.as_millis()),
        1.0..60.0 => format!("{seconds:.2} s"),
        60.0..3_600.0 => format!("{:.1} min", seconds / 60.0),
        3_600.0..86_400.0 => format!("{:.1} h", seconds / 3_600.0),
        _ => format!("{:.1} d", seconds / 86_400.0),
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Vec<Entry> {
        let lines = [
            r#"{"at":1000,"event":{"started":{"workflow":"order","version":"1.0.0","input":{"order":7}}}}"#,
            r#"{"at":1010,"commit":{"upto":1,"commands":[
                {"schedule_activity":{"seq":1,"name":"charge","input":7}},
                {"start_timer":{"seq":2,"due_ms":87400000}},
                {"schedule_activity":{"seq":3,"name":"reserve","input":7}}]}}"#,
            r#"{"at":1850,"event":{"activity_done":{"seq":1,"result":{"ok":{"receipt":"r-1"}}}}}"#,
            r#"{"at":2000,"event":{"signal":{"name":"approve","payload":"by\u001b[2J ann"}}}"#,
            r#"{"at":2010,"commit":{"upto":4,"commands":[{"cancel_timer":{"seq":2}}]}}"#,
            r#"{"at":2400,"event":{"activity_done":{"seq":3,"result":{"failed":
                {"message":"no stock","kind":"failed","attempts":3}}}}}"#,
            r#"{"at":2500,"commit":{"upto":6,"end":{"failed":{"message":"no stock"}}}}"#,
        ];
        lines.iter().map(|line| Entry::read(line.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn a_journal_is_drawn_to_scale() {
        insta::assert_snapshot!(draw(&journal(), Timestamp(9_000), &Style::PLAIN));
    }

    #[test]
    fn what_goes_on_reaches_to_the_present() {
        let drawn = draw(&journal()[..5], Timestamp(3_000), &Style::PLAIN);
        let line = drawn.lines().find(|line| line.contains("reserve")).unwrap();
        assert!(line.contains(">         …  input 7"), "{line:?}");
    }
}
