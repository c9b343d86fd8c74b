//! Gateway and agent processes, for scenarios that kill them.

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

/// The parameters of a process. It runs until its standard input ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum FleetProcessSpec {
    /// A gateway.
    Gateway {
        /// URL of the store.
        store: String,
        /// Address to listen on.
        listen: SocketAddr,
        /// Lease of sessions.
        lease_ms: u64,
    },
    /// An agent that runs browsers.
    Agent {
        /// URL of the store.
        store: String,
        /// Directory of the browsers' profiles.
        directory: PathBuf,
        /// Idle and maximum number of browsers.
        browsers: (usize, usize),
    },
}

impl FleetProcessSpec {
    /// Runs the gateway or agent.
    pub async fn run(self) -> Result<()> {
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

/// A gateway or agent process. Dropping it kills it.
#[derive(Debug)]
pub struct FleetProcess {
    process: Child,
}

impl FleetProcess {
    /// Starts it from this crate's own binary.
    pub fn start(program: &Path, spec: &FleetProcessSpec) -> Result<Self> {
        let process = Command::new(program)
            .arg("fleet")
            .arg(serde_json::to_string(spec)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { process })
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait().context("cannot wait for a gateway or agent").map(drop)
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.try_wait()?.is_some())
    }

    /// Stops it in order and waits.
    pub fn shut_down(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        self.process.wait().context("cannot wait for a gateway or agent").map(drop)
    }
}

impl Drop for FleetProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.kill();
    }
}
