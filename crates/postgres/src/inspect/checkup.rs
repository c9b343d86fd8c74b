//! `checkup`: the health of the server, for operators.

use tidemill_core::Error;
use tidemill_core::store::{Checkup, Durability, Finding, Severity};
use tokio_postgres::Row;

use crate::Inner;
use crate::sql::{HEALTH, RIGHTS, SERVER};

/// A snapshot of this age keeps enough dead rows alive to slow every claim.
const OLD_SNAPSHOT_S: i64 = 300;

/// A replication slot this many transactions behind keeps enough dead rows alive to slow every
/// claim.
const MAX_SLOT_LAG: i64 = 100_000;

/// More dead rows than this mean that vacuum does not keep up.
const MAX_DEAD_ROWS: i64 = 1_000_000;

/// A lease that expired this long ago has no rescuer left.
const LATE_LEASE_MS: i64 = 60_000;

/// How many late leases are counted, per queue.
const MAX_LATE_LEASES: i64 = 1_000;

impl Inner {
    pub(crate) async fn checkup(&self) -> Result<Checkup, Error> {
        let server = self.server_settings().await?;
        let rights = self.pool.query(&RIGHTS, &[]).await?;
        let health = self.one(self.pool.query(&HEALTH, &[&LATE_LEASE_MS, &MAX_LATE_LEASES]).await?)?;
        let missing: Vec<String> = rights.iter().map(|row| row.get("lacks")).collect();
        let mut findings = vec![
            schema(&self.pool.connector.schema),
            commits(&server),
            standby(&server),
            rights_of(&missing),
            vacuum(&server, &health),
            snapshots(&health),
            slots(&health),
            leases(health.get("late")),
        ];
        findings.extend(self.transport.checkup().await);
        let version: String = server.get("version");
        Ok(Checkup { server: format!("postgresql {version}"), durability: durability(&server), findings })
    }

    /// The durability of a commit with the settings of this role.
    pub(crate) async fn find_durability(&self) -> Result<Durability, Error> {
        Ok(durability(&self.server_settings().await?))
    }

    async fn server_settings(&self) -> Result<Row, Error> {
        self.one(self.pool.query(&SERVER, &[]).await?)
    }

    fn one(&self, rows: Vec<Row>) -> Result<Row, Error> {
        rows.into_iter().next().ok_or_else(|| Error::Corrupt("the server returned no rows".into()))
    }
}

fn durability(server: &Row) -> Durability {
    let (fsync, commit): (&str, &str) = (server.get("fsync"), server.get("synchronous_commit"));
    let standbys: &str = server.get("standbys");
    match commit {
        _ if fsync == "off" => Durability::Process,
        "off" => Durability::Process,
        "local" => Durability::Fsync,
        _ if standbys.is_empty() => Durability::Fsync,
        _ => Durability::Replicated,
    }
}

fn finding(fine: bool, bad: Severity, subject: &str, message: (String, &str)) -> Finding {
    let (found, advice) = message;
    if fine {
        return Finding::new(Severity::Good, subject, found);
    }
    Finding::new(bad, subject, format!("{found}: {advice}"))
}

fn schema(name: &str) -> Finding {
    Finding::new(Severity::Good, "schema", format!("{name} has the version this build knows"))
}

fn commits(server: &Row) -> Finding {
    let (fsync, commit): (&str, &str) = (server.get("fsync"), server.get("synchronous_commit"));
    let found = format!("fsync is {fsync}, synchronous_commit is {commit}");
    let fine = durability(server) >= Durability::Fsync;
    finding(fine, Severity::Warning, "durability", (found, "a crash of the server may lose the last jobs"))
}

fn standby(server: &Row) -> Finding {
    let standby: bool = server.get("standby");
    let found = if standby { "this is a read-only standby" } else { "takes writes" };
    finding(!standby, Severity::Bad, "role", (found.into(), "connect to the primary"))
}

fn rights_of(missing: &[String]) -> Finding {
    if missing.is_empty() {
        return Finding::new(Severity::Good, "rights", "everything needed is granted");
    }
    Finding::new(Severity::Bad, "rights", format!("grant what is missing: {}", missing.join(", ")))
}

fn vacuum(server: &Row, health: &Row) -> Finding {
    let autovacuum: &str = server.get("autovacuum");
    let dead: i64 = health.get::<_, Option<i64>>("dead_rows").unwrap_or(0);
    let worst: Option<&str> = health.get("worst");
    let since = health.get::<_, Option<i64>>("vacuumed_s").map(|s| format!("{s} s ago"));
    let since = since.unwrap_or_else(|| "never".to_owned());
    let worst = worst.unwrap_or("any table");
    let found = format!("autovacuum is {autovacuum}, {dead} dead rows in {worst}, last vacuumed {since}");
    let fine = autovacuum == "on" && dead < MAX_DEAD_ROWS;
    finding(fine, Severity::Warning, "vacuum", (found, "claims slow down until they are vacuumed"))
}

fn snapshots(health: &Row) -> Finding {
    snapshots_finding(health.get("oldest_s"), health.get("prepared_s"), health.get("sees_all"))
}

/// Takes ages in seconds, and whether other roles' transactions are included.
fn snapshots_finding(open: i64, prepared: i64, sees_all: bool) -> Finding {
    let mut found = format!("the oldest open transaction is {open} s old");
    if prepared > 0 {
        found = format!("{found}, the oldest prepared one {prepared} s");
    }
    if !sees_all {
        found.push_str(" (other roles' cannot be seen without pg_read_all_stats)");
    }
    let advice = "dead rows cannot be removed while it is open, and looks for work have to pass them";
    finding(open.max(prepared) < OLD_SNAPSHOT_S, Severity::Warning, "snapshots", (found, advice))
}

/// A slot without a reader keeps rows alive as an open transaction does, and the log as well.
fn slots(health: &Row) -> Finding {
    let (slot, behind): (Option<&str>, i64) = (health.get("slot"), health.get("slot_behind"));
    let Some(slot) = slot else {
        return Finding::new(Severity::Good, "replication slots", "none keeps dead rows");
    };
    let found = format!("slot {slot} is {behind} transactions behind");
    let advice = "dead rows cannot be removed until its reader has caught up or the slot is dropped";
    finding(behind < MAX_SLOT_LAG, Severity::Warning, "replication slots", (found, advice))
}

fn leases(late: i64) -> Finding {
    let found = format!("{late} leases ran out more than a minute ago");
    finding(late == 0, Severity::Warning, "leases", (found, "no worker is left to rescue them; start one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_transaction_is_warned_of_whether_it_is_open_or_prepared() {
        assert_eq!(snapshots_finding(OLD_SNAPSHOT_S - 1, 0, true).severity, Severity::Good);
        for (open, prepared) in [(OLD_SNAPSHOT_S, 0), (0, OLD_SNAPSHOT_S)] {
            let finding = snapshots_finding(open, prepared, true);
            assert_eq!(finding.severity, Severity::Warning);
            assert!(finding.message.contains("300 s"), "{}", finding.message);
        }
        assert!(snapshots_finding(0, 0, false).message.contains("pg_read_all_stats"));
    }
}
