//! What a program prints: every line for whoever waits for one of them, and the last ones for when it dies.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

/// A line is cut here: a program may print megabytes without a single end of line.
const LONGEST: usize = 4096;

/// So many lines tell why a program died.
const LAST: usize = 6;

/// Whoever waits for a line takes them as they come; a program that prints faster waits a moment.
const AHEAD: usize = 16;

/// A program's lines, as they come. Who does not want them any more drops them.
pub(super) type Lines = mpsc::Receiver<String>;

/// The last lines that a program printed.
#[derive(Debug, Clone, Default)]
pub(super) struct LastWords(Arc<Mutex<VecDeque<String>>>);

impl LastWords {
    fn add(&self, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }
}

impl std::fmt::Display for LastWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<_> = lines.iter().map(|line| line.escape_debug().to_string()).collect();
        f.write_str(&lines.join(" | "))
    }
}

/// Listens to a program for as long as it prints: one that nobody reads would stand still when its pipe is full.
pub(super) fn listen(output: Option<impl AsyncRead + Unpin + Send + 'static>) -> (Lines, LastWords) {
    let ((sender, lines), last_words) = (mpsc::channel(AHEAD), LastWords::default());
    if let Some(output) = output {
        // It ends with the program, whose pipe it reads, and holds nothing that anybody waits for.
        drop(tokio::spawn(read(output, sender, last_words.clone())));
    }
    (lines, last_words)
}

async fn read(mut output: impl AsyncRead + Unpin, lines: mpsc::Sender<String>, last_words: LastWords) {
    let (mut chunk, mut line) = ([0; 1024], Vec::new());
    while let Ok(read @ 1..) = output.read(&mut chunk).await {
        for byte in &chunk[..read] {
            match byte {
                b'\n' => pass_on(&std::mem::take(&mut line), &lines, &last_words).await,
                byte if line.len() < LONGEST => line.push(*byte),
                _ => {}
            }
        }
    }
    pass_on(&line, &lines, &last_words).await;
}

async fn pass_on(line: &[u8], lines: &mpsc::Sender<String>, last_words: &LastWords) {
    let line = String::from_utf8_lossy(line);
    let line = line.trim();
    if !line.is_empty() {
        last_words.add(line);
        // Nobody wants them any more: the usual case.
        let _ = lines.send(line.to_owned()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_whole_and_the_last_ones_stay() {
        let output: Vec<u8> = (0..10).flat_map(|n| format!("line {n}\n\n").into_bytes()).collect();
        let (mut lines, last_words) = listen(Some(std::io::Cursor::new(output)));
        let mut heard = Vec::new();
        while let Some(line) = lines.recv().await {
            heard.push(line);
        }
        assert_eq!(heard.len(), 10);
        assert_eq!(last_words.to_string(), "line 4 | line 5 | line 6 | line 7 | line 8 | line 9");
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut() {
        let (mut lines, _) = listen(Some(std::io::Cursor::new(vec![b'x'; 100_000])));
        assert_eq!(lines.recv().await.unwrap().len(), LONGEST);
    }
}
