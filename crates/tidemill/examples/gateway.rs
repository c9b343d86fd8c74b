//! The gateway inside a Rust program: one address for all browsers of the fleet.
//!
//! It needs a browser in the fleet: `tidemill --store sqlite:fleet.db browser`, in another terminal.
//! Clients connect to `ws://127.0.0.1:7718?token=…`.
//!
//! ```sh
//! cargo run -p tidemill --features fleet --example gateway
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use tidemill::fleet::gateway::{AccessToken, Gateway};
use tidemill::{mins, secs, shutdown_signal};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = tidemill::connect("sqlite:fleet.db").await?;
    let listener = TcpListener::bind("127.0.0.1:7718").await?;
    let token: AccessToken = "tests=correct-horse-battery-staple".parse()?;
    let gateway = Gateway::new(&client).token(token).queue(100, secs(30)).idle_time(Some(mins(5)));
    println!("listening on {}", listener.local_addr()?);
    gateway.serve(listener, shutdown_signal()).await?;
    Ok(())
}
