//! A program's output: each line for the reader, and the last lines for the error report.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

/// Longer lines are cut: a program may print megabytes without a line end.
const MAX_LINE_BYTES: usize = 4096;

/// How many lines an error report contains.
const TAIL_LINES: usize = 6;

/// The reader takes lines as they come; a program that prints faster blocks for a moment.
const LINE_CHANNEL_CAPACITY: usize = 16;

/// A program's lines. Dropping the receiver discards them.
pub(super) type OutputLines = mpsc::Receiver<String>;

/// The last lines that a program printed.
#[derive(Debug, Clone, Default)]
pub(super) struct OutputTail(Arc<Mutex<VecDeque<String>>>);

impl OutputTail {
    fn add(&self, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }
}

impl std::fmt::Display for OutputTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<_> = lines.iter().map(|line| line.escape_debug().to_string()).collect();
        f.write_str(&lines.join(" | "))
    }
}

/// Reads a program's output until it ends. A program whose output nobody reads blocks when its pipe
/// is full.
pub(super) fn read_output(
    output: Option<impl AsyncRead + Unpin + Send + 'static>,
) -> (OutputLines, OutputTail) {
    let ((sender, lines), tail) = (mpsc::channel(LINE_CHANNEL_CAPACITY), OutputTail::default());
    if let Some(output) = output {
        // The task ends with the program's pipe, and nothing waits for it.
        drop(tokio::spawn(read(output, sender, tail.clone())));
    }
    (lines, tail)
}

async fn read(mut output: impl AsyncRead + Unpin, lines: mpsc::Sender<String>, tail: OutputTail) {
    let (mut chunk, mut line) = ([0; 1024], Vec::new());
    while let Ok(read @ 1..) = output.read(&mut chunk).await {
        for byte in &chunk[..read] {
            match byte {
                b'\n' => push_line(&std::mem::take(&mut line), &lines, &tail).await,
                byte if line.len() < MAX_LINE_BYTES => line.push(*byte),
                _ => {}
            }
        }
    }
    push_line(&line, &lines, &tail).await;
}

async fn push_line(line: &[u8], lines: &mpsc::Sender<String>, tail: &OutputTail) {
    let line = String::from_utf8_lossy(line);
    let line = line.trim();
    if !line.is_empty() {
        tail.add(line);
        // Usually nobody reads them any more.
        let _ = lines.send(line.to_owned()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_whole_and_the_last_ones_stay() {
        let output: Vec<u8> = (0..10).flat_map(|n| format!("line {n}\n\n").into_bytes()).collect();
        let (mut lines, tail) = read_output(Some(std::io::Cursor::new(output)));
        let mut heard = Vec::new();
        while let Some(line) = lines.recv().await {
            heard.push(line);
        }
        assert_eq!(heard.len(), 10);
        assert_eq!(tail.to_string(), "line 4 | line 5 | line 6 | line 7 | line 8 | line 9");
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut() {
        let (mut lines, _) = read_output(Some(std::io::Cursor::new(vec![b'x'; 100_000])));
        assert_eq!(lines.recv().await.unwrap().len(), MAX_LINE_BYTES);
    }
}
