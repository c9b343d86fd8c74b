//! One connection through a proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::plan::Plan;

/// Carries bytes both ways until one side ends or the line is cut.
pub(super) async fn carry(client: TcpStream, upstream: SocketAddr, plan: Arc<Plan>) {
    let cut = plan.until_cut();
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    // Without this, small answers wait for an acknowledgement that the other side delays.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let doomed = AtomicBool::new(false);
    // Either end closes both, as a server and a client would see it without a proxy.
    tokio::select! {
        _ = requests(from_client, to_server, &plan, &doomed) => {}
        _ = answers(from_server, to_client, &plan, &doomed) => {}
        () = cut => {}
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    plan: &Plan,
    doomed: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        plan.until_open().await;
        if plan.dooms(&buffer[..length]) {
            doomed.store(true, Ordering::SeqCst);
        }
        to.write_all(&buffer[..length]).await?;
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    plan: &Plan,
    doomed: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        // The server has answered, so the request has had its effect.
        if doomed.load(Ordering::SeqCst) {
            plan.note_dropped();
            return Ok(());
        }
        plan.until_open().await;
        to.write_all(&buffer[..length]).await?;
    }
}
