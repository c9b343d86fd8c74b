//! A gateway in a process of its own, so that what it takes can be seen.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway that listens.
pub(crate) struct Gateway {
    process: Child,
    /// Where.
    pub(crate) url: String,
}

impl Gateway {
    pub(crate) async fn start(tidemill: Option<&Path>, store: &str) -> Result<Self> {
        let beside = || -> Result<PathBuf> { Ok(std::env::current_exe()?.with_file_name("tidemill")) };
        let program = tidemill.map(Path::to_owned).map_or_else(beside, Ok)?;
        // Nobody takes it in the moment between.
        let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let process = Command::new(&program)
            .args(["--store", store, "gateway", "--listen", &address.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        listens(address).await?;
        Ok(Self { process, url: format!("ws://{address}/chromium") })
    }

    /// How much memory it has, in MB, as the kernel counts it.
    pub(crate) fn memory(&self) -> Result<f64> {
        let pid = self.process.id().context("the gateway has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse::<f64>()? / 1024.0)
    }
}

async fn listens(address: SocketAddr) -> Result<()> {
    let begun = Instant::now();
    while TcpStream::connect(address).await.is_err() {
        if begun.elapsed() > PATIENCE {
            bail!("the gateway does not listen on {address}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
