//! A page on this machine that counts clicks and has something to type into.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::client::BrowserClient;

const PAGE: &str = "<!doctype html><title>a page</title>
<button onclick='document.getElementById(\"count\").textContent++'>more</button> <p id=count>0</p> <input>";

/// Serves the page to everyone who asks.
pub(crate) struct Site {
    pub(crate) url: String,
    _task: AbortOnDropHandle<()>,
}

impl Site {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream));
            }
        });
        Self { url, _task: AbortOnDropHandle::new(task) }
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    // Whatever it asks for, it gets the page.
    let _ = stream.read(&mut [0; 4096]).await?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length:";
    stream.write_all(format!("{head} {}\r\n\r\n{PAGE}", PAGE.len()).as_bytes()).await
}

/// A client opens the page, clicks, reads and looks: how long it took to open, in milliseconds.
pub(crate) async fn use_page(client: &mut BrowserClient, url: &str) -> u64 {
    let time = client.open(url).await;
    client.click("button").await;
    client.click("button").await;
    assert_eq!(client.text("#count").await, "2");
    assert!(client.screenshot().await.starts_with(b"\x89PNG"));
    time
}
