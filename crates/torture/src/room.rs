//! A part of a store that shares its server and nothing else: many short scenes side by side, none of which sees the
//! others' jobs.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use tidemill::Client;

use crate::audit::Audit;
use crate::crew::Member;
use crate::duty::Duty;
use crate::ledger;
use crate::stage::Stage;

/// A namespace, a file or a database of its own.
pub struct Room {
    /// A connection to it.
    pub client: Client,
    duty: Duty,
    program: PathBuf,
}

impl Room {
    /// A room of the stage's store, empty if nobody has used the name before.
    pub async fn open(stage: &Stage, name: &str) -> Result<Self> {
        let (store, namespace) = stage.place().corner(name)?;
        let ledger = stage.beside(&format!("ledger-{name}"));
        let duty = Duty { store, namespace, ledger, ..stage.duty(4) };
        Ok(Self { client: duty.connect().await?, duty, program: stage.program().to_owned() })
    }

    /// What a worker here is told, unless it is told otherwise.
    pub fn duty(&self) -> Duty {
        self.duty.clone()
    }

    /// Starts a worker; meanwhile the other rooms go on.
    pub async fn hire(&self, duty: Duty) -> Result<Member> {
        let program = self.program.clone();
        tokio::task::spawn_blocking(move || Member::start(&program, &duty)).await?
    }

    /// What the ledger says, and an empty one for the next scene.
    pub fn take_ledger(&self) -> Result<Audit> {
        let lines = ledger::read(&self.duty.ledger)?;
        std::fs::remove_file(&self.duty.ledger)?;
        Ok(Audit::of(lines))
    }

    /// Asserts that nothing is left to run.
    pub async fn assert_drained(&self) -> Result<()> {
        for info in self.client.store().list_queues().await? {
            let left = info.ready + info.scheduled + info.running;
            ensure!(left == 0 && info.dead == 0, "left behind in {}: {info:?}", info.queue.name);
        }
        Ok(())
    }
}
