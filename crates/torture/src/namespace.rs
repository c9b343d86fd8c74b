//! An isolated part of a store on a shared server, so that short scenarios run side by side without
//! seeing each other's jobs.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use tidemill::Client;

use crate::audit::Audit;
use crate::environment::Environment;
use crate::ledger;
use crate::worker_main::WorkerSpec;
use crate::worker_process::WorkerProcess;

/// A namespace, file or database, and how to start workers on it.
pub struct StoreNamespace {
    /// A client of it.
    pub client: Client,
    spec: WorkerSpec,
    program: PathBuf,
}

impl StoreNamespace {
    /// Opens the part with this name. It is empty if the name is new.
    pub async fn open(environment: &Environment, name: &str) -> Result<Self> {
        let (store, namespace) = environment.store().isolated(name)?;
        let ledger = environment.path_of(&format!("ledger-{name}"));
        let spec = WorkerSpec { store, namespace, ledger, ..environment.worker_spec(4) };
        Ok(Self { client: spec.connect().await?, spec, program: environment.program().to_owned() })
    }

    /// The default parameters of a worker here.
    pub fn worker_spec(&self) -> WorkerSpec {
        self.spec.clone()
    }

    /// Starts a worker without blocking the other namespaces.
    pub async fn start_worker(&self, spec: WorkerSpec) -> Result<WorkerProcess> {
        let program = self.program.clone();
        tokio::task::spawn_blocking(move || WorkerProcess::start(&program, &spec)).await?
    }

    /// Reads the ledger and deletes it, so that the next scenario starts with an empty one.
    pub fn take_audit(&self) -> Result<Audit> {
        let lines = ledger::read(&self.spec.ledger)?;
        std::fs::remove_file(&self.spec.ledger)?;
        Ok(Audit::new(lines))
    }

    /// Asserts that no job is left to run.
    pub async fn assert_drained(&self) -> Result<()> {
        for info in self.client.store().list_queues().await? {
            let left = info.ready + info.scheduled + info.running;
            ensure!(left == 0 && info.dead == 0, "left behind in {}: {info:?}", info.queue.name);
        }
        Ok(())
    }
}
