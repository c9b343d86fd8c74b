//! A way to a server that ends for good after a number of requests: what a process that dies between two steps looks
//! like from the server.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How long the server has for the answer to the last request.
const ANSWER: Duration = Duration::from_secs(1);

/// Everything passes until it is told how many requests are left.
pub(crate) struct Mortal {
    port: u16,
    life: Arc<Life>,
}

struct Life {
    left: AtomicI64,
    over: watch::Sender<bool>,
}

impl Mortal {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let life = Arc::new(Life { left: AtomicI64::new(i64::MAX), over: watch::Sender::new(false) });
        let mortal = Self { port: listener.local_addr().unwrap().port(), life: life.clone() };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
                tokio::spawn(carry(client, server, life.clone()));
            }
        });
        mortal
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Lets this many requests through, and then nothing for ever. The last one has its effect, but no answer.
    pub(crate) fn dies_after(&self, requests: i64) {
        self.life.left.store(requests, Ordering::SeqCst);
        if requests == 0 {
            self.life.over.send_replace(true);
        }
    }

    /// Whether it came to that.
    pub(crate) fn is_dead(&self) -> bool {
        *self.life.over.borrow()
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, life: Arc<Life>) {
    let (mut over, mut asked, mut answered) = (life.over.subscribe(), vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        if *over.borrow() {
            return;
        }
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                let left = life.left.fetch_sub(1, Ordering::SeqCst);
                if left <= 0 || server.write_all(&asked[..length]).await.is_err() {
                    return;
                }
                if left == 1 {
                    // A large request comes in parts, and the server answers none of them but the last.
                    let _ = tokio::time::timeout(ANSWER, server.read(&mut answered)).await;
                    life.over.send_replace(true);
                }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
            _ = over.changed() => return,
        }
    }
}
