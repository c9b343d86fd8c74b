//! The proxy does to a connection what it is told.
#![allow(clippy::unwrap_used, clippy::expect_used)] // clippy does not see that this whole file is tests

use std::io;
use std::time::Duration;

use tidemill_testkit::faults::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A server that answers every byte with the same byte, and tells what it was sent.
async fn echo() -> (u16, mpsc::UnboundedReceiver<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sent, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let sent = sent.clone();
            tokio::spawn(async move {
                while let Ok(byte) = socket.read_u8().await {
                    let _ = sent.send(byte);
                    let _ = socket.write_u8(byte).await;
                }
            });
        }
    });
    (port, seen)
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap()
}

async fn ask(socket: &mut TcpStream, byte: u8) -> io::Result<u8> {
    socket.write_u8(byte).await?;
    tokio::time::timeout(Duration::from_secs(10), socket.read_u8()).await.expect("an answer or an end")
}

#[tokio::test]
async fn everything_passes_until_it_is_told_otherwise() {
    let (port, _) = echo().await;
    let proxy = Proxy::to(port).await.unwrap();
    let mut socket = connect(&proxy).await;
    assert_eq!(ask(&mut socket, 7).await.unwrap(), 7);
    assert_eq!(
        proxy.url(&format!("redis://127.0.0.1:{port}/0")),
        format!("redis://127.0.0.1:{}/0", proxy.port())
    );
}

#[tokio::test]
async fn a_cut_ends_the_connections_there_are() {
    let (port, _) = echo().await;
    let proxy = Proxy::to(port).await.unwrap();
    let mut old = connect(&proxy).await;
    assert_eq!(ask(&mut old, 1).await.unwrap(), 1);
    proxy.cut();
    assert!(ask(&mut old, 2).await.is_err());
    assert_eq!(ask(&mut connect(&proxy).await, 3).await.unwrap(), 3);
}

#[tokio::test]
async fn a_black_hole_delivers_late() {
    let (port, mut seen) = echo().await;
    let proxy = Proxy::to(port).await.unwrap();
    let mut socket = connect(&proxy).await;
    proxy.black_hole();
    socket.write_u8(1).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(100), seen.recv()).await.is_err());
    proxy.resume().await.unwrap();
    assert_eq!(socket.read_u8().await.unwrap(), 1);
    assert_eq!(seen.recv().await, Some(1));
}

#[tokio::test]
async fn a_dropped_answer_was_to_a_request_that_took_effect() {
    let (port, mut seen) = echo().await;
    let proxy = Proxy::to(port).await.unwrap();
    let mut socket = connect(&proxy).await;
    proxy.drop_next_answer();
    assert!(ask(&mut socket, 1).await.is_err());
    assert_eq!((seen.recv().await, proxy.answers_dropped()), (Some(1), 1));
    assert_eq!(ask(&mut connect(&proxy).await, 2).await.unwrap(), 2);
}

#[tokio::test]
async fn the_answer_to_one_request_in_particular_is_dropped() {
    let (port, _) = echo().await;
    let proxy = Proxy::to(port).await.unwrap();
    let mut socket = connect(&proxy).await;
    proxy.drop_answer_to("x");
    assert_eq!(ask(&mut socket, b'a').await.unwrap(), b'a');
    assert!(ask(&mut socket, b'x').await.is_err());
    assert_eq!(ask(&mut connect(&proxy).await, b'x').await.unwrap(), b'x');
}

#[tokio::test]
async fn new_connections_are_refused_until_it_resumes() {
    let (port, _) = echo().await;
    let proxy = Proxy::to(port).await.unwrap();
    let mut old = connect(&proxy).await;
    assert_eq!(ask(&mut old, 1).await.unwrap(), 1);
    proxy.refuse().await;
    let refused = TcpStream::connect(("127.0.0.1", proxy.port())).await;
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(ask(&mut old, 2).await.unwrap(), 2);
    proxy.resume().await.unwrap();
    assert_eq!(ask(&mut connect(&proxy).await, 3).await.unwrap(), 3);
}
