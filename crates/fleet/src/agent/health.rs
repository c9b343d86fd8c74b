//! Health probes of browsers.

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

use super::output_log::OutputLines;

/// How often a browser is probed.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// How long a probe may take. A browser that loads a heavy page answers late; one that hangs never
/// answers.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Far more than a healthy browser's response.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// How a browser is probed.
#[derive(Debug)]
pub(super) enum Probe {
    /// An HTTP request that the browser process answers.
    Http { authority: String, path: &'static str },
    /// A TCP connection: nothing else works with every program.
    Tcp { authority: String },
    /// A line to the sidecar, which asks the browser.
    Sidecar { stdin: ChildStdin, lines: OutputLines },
}

impl Probe {
    /// Completes with the reason when two probes in a row have failed. A single failure may be a
    /// busy machine.
    pub(super) async fn wait_for_failure(&mut self) -> String {
        let mut has_failed = false;
        loop {
            self.wait_interval().await;
            let probed = timeout(PROBE_TIMEOUT, self.probe()).await;
            match probed.unwrap_or_else(|_| Err(format!("no answer within {PROBE_TIMEOUT:?}"))) {
                Ok(()) => has_failed = false,
                Err(reason) if has_failed => return reason,
                Err(_) => has_failed = true,
            }
        }
    }

    /// Waits until the next probe is due.
    async fn wait_interval(&mut self) {
        match self {
            Self::Sidecar { lines, .. } => discard_lines(lines, PROBE_INTERVAL).await,
            _ => sleep(PROBE_INTERVAL).await,
        }
    }

    async fn probe(&mut self) -> Result<(), String> {
        match self {
            Self::Http { authority, path } => http_get(authority, path).await.map(drop),
            Self::Tcp { authority } => TcpStream::connect(&*authority).await.map(drop).map_err(error_text),
            Self::Sidecar { stdin, lines } => probe_sidecar(stdin, lines).await,
        }
    }
}

/// Discards what the program prints meanwhile: a program blocks when nobody reads its output.
async fn discard_lines(lines: &mut OutputLines, pause: Duration) {
    let discard = async { while lines.recv().await.is_some() {} };
    let mut end = pin!(sleep(pause));
    tokio::select! {
        () = &mut end => return,
        // The output has ended; the next probe reports it.
        () = discard => {}
    }
    end.await;
}

async fn probe_sidecar(stdin: &mut ChildStdin, lines: &mut OutputLines) -> Result<(), String> {
    let token = format!("{:08x}", fastrand::u32(..));
    stdin.write_all(format!("{token}\n").as_bytes()).await.map_err(error_text)?;
    // Other lines are kept in the output tail only.
    let answer = format!(r#"{{"well":"{token}"}}"#);
    loop {
        match lines.recv().await {
            Some(line) if line == answer => return Ok(()),
            Some(_) => {}
            None => return Err("it has closed its output".to_owned()),
        }
    }
}

/// The body of `GET path`.
pub(super) async fn http_get(authority: &str, path: &str) -> Result<Bytes, String> {
    let stream = TcpStream::connect(authority).await.map_err(error_text)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(error_text)?;
    let request =
        Request::get(path).header(HOST, authority).body(Empty::<Bytes>::new()).map_err(error_text)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(error_text)?;
        if !answer.status().is_success() {
            return Err(format!("GET {path} was answered with {}", answer.status()));
        }
        let body = Limited::new(answer.into_body(), MAX_BODY_BYTES).collect().await.map_err(error_text)?;
        Ok(body.to_bytes())
    };
    tokio::pin!(answer, connection);
    // The connection moves the bytes. If it ends first, the response that it received is still to
    // be read.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::output_log::read_output;

    #[tokio::test]
    async fn whoever_prints_much_between_two_questions_does_not_stand_still() {
        let (mut printer, output) = tokio::io::duplex(64);
        let (mut lines, _) = read_output(Some(output));
        let prints = async {
            for number in 0..1000 {
                printer.write_all(format!("line {number}\n").as_bytes()).await.unwrap();
            }
        };
        tokio::select! {
            () = prints => {}
            () = discard_lines(&mut lines, Duration::from_secs(60)) => panic!("it stood still"),
        }
    }
}
