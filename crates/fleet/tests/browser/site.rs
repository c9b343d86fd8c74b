//! A web site on this machine, as small as it can be.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// Serves pages; remembers who came.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pages: Arc<Pages>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Pages {
    by_path: Mutex<HashMap<String, String>>,
    visits: Mutex<Vec<String>>,
    visited: Notify,
}

impl Site {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, pages) = (listener.local_addr().unwrap(), Arc::<Pages>::default());
        let task = tokio::spawn(accept(listener, pages.clone()));
        Self { address, pages, _task: AbortOnDropHandle::new(task) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Adds a page of HTML.
    pub(crate) fn page(&self, path: &str, html: &str) -> String {
        self.answer(
            path,
            &format!(
                "200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\r\n{html}",
                html.len()
            ),
        )
    }

    /// Adds an answer with a status and nothing else.
    pub(crate) fn status(&self, path: &str, status: &str) -> String {
        self.answer(path, &format!("{status}\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nno"))
    }

    /// Adds a redirect.
    pub(crate) fn redirect(&self, path: &str, to: &str) -> String {
        self.answer(path, &format!("302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"))
    }

    /// Adds an answer as it goes over the wire.
    pub(crate) fn answer(&self, path: &str, answer: &str) -> String {
        self.pages.by_path.lock().unwrap().insert(path.to_owned(), format!("HTTP/1.1 {answer}"));
        self.url(path)
    }

    /// Everything that was asked for.
    pub(crate) fn visits(&self) -> Vec<String> {
        self.pages.visits.lock().unwrap().clone()
    }

    /// Completes when this path has been asked for.
    pub(crate) async fn is_visited(&self, path: &str) {
        loop {
            let mut visited = std::pin::pin!(self.pages.visited.notified());
            visited.as_mut().enable();
            if self.visits().iter().any(|visit| visit == path) {
                return;
            }
            visited.await;
        }
    }
}

async fn accept(listener: TcpListener, pages: Arc<Pages>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(stream, pages.clone()));
    }
}

/// One request a connection. A path that nobody added is never answered.
async fn serve(stream: TcpStream, pages: Arc<Pages>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let path = line.split(' ').nth(1).unwrap_or(&line).to_owned();
    while line.trim() != "" {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
    }
    pages.visits.lock().unwrap().push(path.clone());
    pages.visited.notify_waiters();
    let answer = pages.by_path.lock().unwrap().get(&path).cloned();
    match answer {
        Some(answer) => {
            let answer = answer.replacen("\r\n", "\r\nconnection: close\r\n", 1);
            stream.write_all(answer.as_bytes()).await.ok()?;
            stream.shutdown().await.ok()?;
        }
        None if path == "/favicon.ico" => {}
        None => drop(stream.read_u8().await),
    }
    Some(())
}
