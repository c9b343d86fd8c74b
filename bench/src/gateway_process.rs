//! A gateway as a separate process, so that its memory can be measured.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// Time that it has to listen.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A gateway that is listening.
pub(crate) struct GatewayProcess {
    process: Child,
    /// Its URL.
    pub(crate) url: String,
}

impl GatewayProcess {
    pub(crate) async fn start(tidemill: Option<&Path>, store: &str) -> Result<Self> {
        let default_program =
            || -> Result<PathBuf> { Ok(std::env::current_exe()?.with_file_name("tidemill")) };
        let program = tidemill.map(Path::to_owned).map_or_else(default_program, Ok)?;
        // No other process is likely to take the port in between.
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

    /// Its resident memory in MB.
    pub(crate) fn memory(&self) -> Result<f64> {
        let pid = self.process.id().context("the gateway has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse::<f64>()? / 1024.0)
    }
}

async fn listens(address: SocketAddr) -> Result<()> {
    let started = Instant::now();
    while TcpStream::connect(address).await.is_err() {
        if started.elapsed() > TIMEOUT {
            bail!("the gateway does not listen on {address}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
