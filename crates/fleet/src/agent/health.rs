//! Asks browsers from outside whether they still answer.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::header::HOST;
use hyper::{Request, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::process::ChildStdin;
use tokio::time::{sleep, timeout};

use super::words::Lines;

/// How often to ask.
const EVERY: Duration = Duration::from_secs(5);

/// How long an answer may take. A browser that loads a heavy page answers late, and not at all if it hangs.
const ANSWER: Duration = Duration::from_secs(10);

/// Nobody who is well says more than this about itself.
const MOST: usize = 64 * 1024;

/// How to ask one.
#[derive(Debug)]
pub(super) enum Probe {
    /// By a request for a page that its browser process answers.
    Http { authority: String, path: &'static str },
    /// By a connection: there is nothing else that every program understands.
    Tcp { authority: String },
    /// By way of the sidecar, which asks the browser.
    Sidecar { orders: ChildStdin, lines: Lines },
}

impl Probe {
    /// Completes when there is no answer any more, with the reason. Once may be a machine that was busy, twice is not.
    pub(super) async fn fails(&mut self) -> String {
        let mut has_failed = false;
        loop {
            self.rest().await;
            let asked = timeout(ANSWER, self.ask()).await;
            match asked.unwrap_or_else(|_| Err(format!("no answer within {ANSWER:?}"))) {
                Ok(()) => has_failed = false,
                Err(reason) if has_failed => return reason,
                Err(_) => has_failed = true,
            }
        }
    }

    /// Waits until it is time to ask.
    async fn rest(&mut self) {
        match self {
            Self::Sidecar { lines, .. } => drain(lines, EVERY).await,
            _ => sleep(EVERY).await,
        }
    }

    async fn ask(&mut self) -> Result<(), String> {
        match self {
            Self::Http { authority, path } => get(authority, path).await.map(drop),
            Self::Tcp { authority } => TcpStream::connect(&*authority).await.map(drop).map_err(text),
            Self::Sidecar { orders, lines } => ask_sidecar(orders, lines).await,
        }
    }
}

/// Takes whatever is printed meanwhile: a program whose lines nobody takes stands still.
async fn drain(lines: &mut Lines, pause: Duration) {
    let taken = async { while lines.recv().await.is_some() {} };
    let mut end = pin!(sleep(pause));
    tokio::select! {
        () = &mut end => return,
        // It prints no more, and whoever asks next is told.
        () = taken => {}
    }
    end.await;
}

async fn ask_sidecar(orders: &mut ChildStdin, lines: &mut Lines) -> Result<(), String> {
    let question = format!("{:08x}", fastrand::u32(..));
    orders.write_all(format!("{question}\n").as_bytes()).await.map_err(text)?;
    // What else it prints is for the log of its last words.
    let answer = format!(r#"{{"well":"{question}"}}"#);
    loop {
        match lines.recv().await {
            Some(line) if line == answer => return Ok(()),
            Some(_) => {}
            None => return Err("it has closed its output".to_owned()),
        }
    }
}

/// What `path` holds.
pub(super) async fn get(authority: &str, path: &str) -> Result<Bytes, String> {
    let stream = TcpStream::connect(authority).await.map_err(text)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let request = Request::get(path).header(HOST, authority).body(Empty::<Bytes>::new()).map_err(text)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(text)?;
        if !answer.status().is_success() {
            return Err(format!("GET {path} was answered with {}", answer.status()));
        }
        let body = Limited::new(answer.into_body(), MOST).collect().await.map_err(text)?;
        Ok(body.to_bytes())
    };
    tokio::pin!(answer, connection);
    // The connection moves the bytes. When it ends first, what it brought is still to be read.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::words::listen;

    #[tokio::test]
    async fn whoever_prints_much_between_two_questions_does_not_stand_still() {
        let (mut printer, output) = tokio::io::duplex(64);
        let (mut lines, _) = listen(Some(output));
        let prints = async {
            for number in 0..1000 {
                printer.write_all(format!("line {number}\n").as_bytes()).await.unwrap();
            }
        };
        tokio::select! {
            () = prints => {}
            () = drain(&mut lines, Duration::from_secs(60)) => panic!("it stood still"),
        }
    }
}
