//! A test page on a local HTTP server.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PAGE: &str = "<!doctype html><title>a page</title><h1>A page</h1>";

/// Serves a page for as long as the runtime lives; returns its URL.
pub async fn serve_page() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    Ok(url)
}

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    // Every request gets the page.
    let _ = stream.read(&mut [0; 4096]).await?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length:";
    stream.write_all(format!("{head} {}\r\n\r\n{PAGE}", PAGE.len()).as_bytes()).await
}
