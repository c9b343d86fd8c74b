//! One connection through a proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::plan::FaultPlan;

/// Forwards bytes in both directions until one side closes or the connection is cut.
pub(super) async fn forward(client: TcpStream, upstream: SocketAddr, plan: Arc<FaultPlan>) {
    let cut = plan.wait_for_cut();
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    // Without this, small answers wait for an acknowledgement that the other side delays.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let drop_answer = AtomicBool::new(false);
    // When either side closes, both are closed, as they would see it without a proxy.
    tokio::select! {
        _ = requests(from_client, to_server, &plan, &drop_answer) => {}
        _ = answers(from_server, to_client, &plan, &drop_answer) => {}
        () = cut => {}
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    plan: &FaultPlan,
    drop_answer: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        plan.wait_until_open().await;
        if plan.drops_answer_to(&buffer[..length]) {
            drop_answer.store(true, Ordering::SeqCst);
        }
        to.write_all(&buffer[..length]).await?;
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    plan: &FaultPlan,
    drop_answer: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        // The server has answered, so the request has taken effect.
        if drop_answer.load(Ordering::SeqCst) {
            plan.record_dropped();
            return Ok(());
        }
        plan.wait_until_open().await;
        to.write_all(&buffer[..length]).await?;
    }
}
