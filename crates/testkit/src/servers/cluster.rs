//! A Redis Cluster of three masters.

use super::redis::{Redis, RedisOptions};
use super::{ServerError, resp, wait_for};

const SLOTS: usize = 16_384;

/// Three masters without replicas that share all slots. Dropping it stops them.
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts a cluster and waits until it accepts commands.
    pub fn start() -> Result<Self, ServerError> {
        Self::with(RedisOptions::default())
    }

    /// Starts a cluster with these options for each node.
    pub fn with(options: RedisOptions) -> Result<Self, ServerError> {
        let options = RedisOptions { cluster: true, ..options };
        let nodes = (0..3).map(|_| Redis::with(options.clone())).collect::<Result<_, _>>()?;
        let cluster = Self { nodes };
        cluster.assign_slots()?;
        cluster.meet()?;
        cluster.wait_until_ok()?;
        Ok(cluster)
    }

    /// Assigns a third of the slots to each node. One `ADDSLOTS` each: the shorter `ADDSLOTSRANGE`
    /// is not in 6.2.
    fn assign_slots(&self) -> Result<(), ServerError> {
        for (index, node) in self.nodes.iter().enumerate() {
            let own = (0..SLOTS).filter(|slot| slot * self.nodes.len() / SLOTS == index);
            let slots: Vec<_> = own.map(|slot| slot.to_string()).collect();
            let command: Vec<_> =
                ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
            node.command(&command)?;
            // Distinct epochs, so that the nodes have no collision to resolve before they agree.
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        }
        Ok(())
    }

    fn meet(&self) -> Result<(), ServerError> {
        for node in &self.nodes[1..] {
            // Servers that use TLS among themselves know each other by those ports.
            let port = self.nodes[0].tls_port().unwrap_or(self.nodes[0].port());
            node.command(&["CLUSTER", "MEET", "127.0.0.1", &port.to_string()])?;
        }
        Ok(())
    }

    /// Waits until every node knows the others and sees the whole cluster, also after a restart.
    pub fn wait_until_ok(&self) -> Result<(), ServerError> {
        wait_for("the cluster's agreement", || {
            let agree = self.nodes.iter().all(|node| node.command(&["CLUSTER", "INFO"]).is_ok_and(is_ok));
            Ok(agree.then_some(()))
        })
    }

    /// The URL of the cluster, with one node; clients learn the others from it.
    pub fn url(&self) -> String {
        match self.nodes[0].tls_port() {
            Some(port) => format!("rediss+cluster://127.0.0.1:{port}"),
            None => format!("redis+cluster://127.0.0.1:{}", self.nodes[0].port()),
        }
    }

    /// Makes a master announce another port to clients, such as that of a proxy in front of it.
    /// Traffic between masters does not use it. Waits until all masters announce it.
    pub fn announce(&self, index: usize, port: u16) -> Result<(), ServerError> {
        let port = port.to_string();
        self.nodes[index].command(&["CONFIG", "SET", "cluster-announce-port", &port])?;
        wait_for("the announced port", || {
            let says_so = |node: &Redis| {
                node.command(&["CLUSTER", "NODES"]).is_ok_and(|nodes| nodes.contains(&format!(":{port}@")))
            };
            Ok(self.nodes.iter().all(says_so).then_some(()))
        })
    }

    /// The masters. Each can be paused, killed or restarted on its own.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }
}

fn is_ok(info: String) -> bool {
    let field = |name| resp::field(&info, name);
    field("cluster_state") == Some("ok")
        && field("cluster_known_nodes") == Some("3")
        && field("cluster_slots_ok") == Some("16384")
}
