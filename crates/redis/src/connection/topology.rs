//! Discovery of the server of each shard in a Cluster.

use std::collections::HashMap;
use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, Value};
use tidemill_core::Error;

use super::Node;
use crate::connection::keys::Keys;
use crate::connection::reply::{array, int, text};
use crate::error::{classify, unexpected_reply};
use crate::options::RedisOptions;

/// A range of slots and the address of its master.
struct SlotRange {
    first: i64,
    last: i64,
    host: String,
    port: u16,
}

/// Asks the seeds in order, until one replies.
pub(super) async fn discover(
    options: &RedisOptions,
    keys: &Keys,
    seeds: &[Arc<Node>],
) -> Result<Vec<Arc<Node>>, Error> {
    let mut failure =
        Error::Unavailable { message: "no server of the Cluster is known".into(), source: None };
    for seed in seeds {
        match query_seed(options, keys, (seed, seeds)).await {
            Ok(nodes) => return Ok(nodes),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn query_seed(
    options: &RedisOptions,
    keys: &Keys,
    (seed, known): (&Arc<Node>, &[Arc<Node>]),
) -> Result<Vec<Arc<Node>>, Error> {
    let what = format!("asking {seed} for the Cluster's layout");
    let command = redis::cmd("CLUSTER").arg("SLOTS").take();
    let reply = seed.command(&command).await.map_err(|error| {
        if error.to_string().contains("cluster support disabled") {
            return Error::Unsuitable(format!("{seed} is not a Cluster: use redis:// instead"));
        }
        classify(&what, error)
    })?;
    let ranges = parse_slots(reply, seed.address()).ok_or_else(|| unexpected_reply("CLUSTER SLOTS"))?;
    let mut nodes: HashMap<String, Arc<Node>> =
        known.iter().map(|node| (node.address().to_owned(), node.clone())).collect();
    let mut shards = Vec::with_capacity(usize::from(keys.shards()));
    for shard in 0..keys.shards() {
        let command = redis::cmd("CLUSTER").arg("KEYSLOT").arg(keys.anchor_key(shard)).take();
        let slot = seed.command(&command).await.map_err(|error| classify(&what, error))?;
        let slot = int(&slot).ok_or_else(|| unexpected_reply("CLUSTER KEYSLOT"))?;
        let range = ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        let range = range.ok_or_else(|| Error::Unavailable {
            message: format!("no server of the Cluster has slot {slot}"),
            source: None,
        })?;
        let address = format!("{}:{}", range.host, range.port);
        let node = match nodes.get(&address) {
            Some(node) => node.clone(),
            None => Node::new(options.info.clone().set_addr(address_of(options, range)))?,
        };
        nodes.insert(address, node.clone());
        shards.push(node);
    }
    Ok(shards)
}

/// The servers in a reply of CLUSTER SLOTS.
pub(crate) fn server_addresses(options: &RedisOptions, reply: Value) -> Vec<ConnectionInfo> {
    let seed_address = options.info.addr().to_string();
    let ranges = parse_slots(reply, &seed_address).unwrap_or_default();
    ranges.iter().map(|range| options.info.clone().set_addr(address_of(options, range))).collect()
}

fn address_of(options: &RedisOptions, range: &SlotRange) -> ConnectionAddr {
    let (host, port) = (range.host.clone(), range.port);
    match options.info.addr() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
        }
        _ => ConnectionAddr::Tcp(host, port),
    }
}

/// Parses the reply of CLUSTER SLOTS. A server that does not know its own address leaves it empty:
/// then it is the seed.
fn parse_slots(reply: Value, seed_address: &str) -> Option<Vec<SlotRange>> {
    let own = seed_address.rsplit_once(':').map_or(seed_address, |(host, _)| host);
    let range = |item| -> Option<SlotRange> {
        let mut parts = array(item)?.into_iter();
        let (first, last) = (int(&parts.next()?)?, int(&parts.next()?)?);
        let mut master = array(parts.next()?)?.into_iter();
        let host = text(master.next()?).filter(|host| !host.is_empty()).unwrap_or_else(|| own.to_owned());
        Some(SlotRange { first, last, host, port: u16::try_from(int(&master.next()?)?).ok()? })
    };
    array(reply)?.into_iter().map(range).collect()
}
