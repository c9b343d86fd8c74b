//! Gateways and agents as processes of their own, to be killed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tidemill::fleet::agent::Agent;
use tidemill::fleet::gateway::Gateway;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// What such a process does, until its standard input ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Post {
    /// Hands out browsers.
    Gateway {
        /// The store.
        store: String,
        /// Where it listens.
        listen: SocketAddr,
        /// How long sessions are leased.
        lease_ms: u64,
    },
    /// Keeps browsers.
    Agent {
        /// The store.
        store: String,
        /// Where its browsers have their directories.
        directory: PathBuf,
        /// How many browsers are ready, and how many there are at most.
        browsers: (usize, usize),
    },
}

impl Post {
    /// Does it.
    pub async fn serve(self) -> Result<()> {
        match self {
            Self::Gateway { store, listen, lease_ms } => {
                let client = tidemill::connect(&store).await?;
                let gateway = Gateway::new(&client)
                    .lease_unchecked(Duration::from_millis(lease_ms))
                    .grace(Duration::ZERO);
                Ok(gateway.serve(TcpListener::bind(listen).await?, end_of_input()).await?)
            }
            Self::Agent { store, directory, browsers: (spare, most) } => {
                let client = tidemill::connect(&store).await?;
                let agent = Agent::new(&client).directory(directory).spare(spare).most(most);
                Ok(agent.grace(Duration::ZERO).run_until(end_of_input()).await?)
            }
        }
    }
}

async fn end_of_input() {
    let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
}

/// One of these processes. Dropping it kills it.
#[derive(Debug)]
pub struct Hand {
    process: Child,
}

impl Hand {
    /// Starts one from this crate's own program.
    pub fn start(program: &Path, post: &Post) -> Result<Self> {
        let process = Command::new(program)
            .arg("post")
            .arg(serde_json::to_string(post)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { process })
    }

    /// SIGKILL: it has no last words.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait().context("cannot wait for it").map(drop)
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.try_wait()?.is_some())
    }

    /// Lets it end in order, and waits for that.
    pub fn dismiss(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        self.process.wait().context("cannot wait for it").map(drop)
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.kill();
    }
}
