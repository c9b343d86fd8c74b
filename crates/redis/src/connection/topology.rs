//! Which server of a Cluster has which shard.

use std::collections::HashMap;
use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, Value};
use tidemill_core::Error;

use super::Node;
use crate::connection::keys::Keys;
use crate::connection::reply::{array, int, text};
use crate::error::{classify, odd_answer};
use crate::options::Options;

/// A range of slots and the address of its master.
struct Range {
    first: i64,
    last: i64,
    host: String,
    port: u16,
}

/// Asks the seeds, one after the other, until one knows.
pub(super) async fn discover(
    options: &Options,
    keys: &Keys,
    seeds: &[Arc<Node>],
) -> Result<Vec<Arc<Node>>, Error> {
    let mut failure =
        Error::Unavailable { message: "no server of the Cluster is known".into(), source: None };
    for seed in seeds {
        match ask(options, keys, (seed, seeds)).await {
            Ok(nodes) => return Ok(nodes),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn ask(
    options: &Options,
    keys: &Keys,
    (seed, known): (&Arc<Node>, &[Arc<Node>]),
) -> Result<Vec<Arc<Node>>, Error> {
    let what = format!("asking {seed} for the Cluster's layout");
    let command = redis::cmd("CLUSTER").arg("SLOTS").take();
    let answer = seed.command(&command).await.map_err(|error| {
        if error.to_string().contains("cluster support disabled") {
            return Error::Unsuitable(format!("{seed} is not a Cluster: use redis:// instead"));
        }
        classify(&what, error)
    })?;
    let ranges = ranges(answer, seed.address()).ok_or_else(|| odd_answer("CLUSTER SLOTS"))?;
    let mut nodes: HashMap<String, Arc<Node>> =
        known.iter().map(|node| (node.address().to_owned(), node.clone())).collect();
    let mut shards = Vec::with_capacity(usize::from(keys.shards()));
    for shard in 0..keys.shards() {
        let ask = redis::cmd("CLUSTER").arg("KEYSLOT").arg(keys.anchor(shard)).take();
        let slot = seed.command(&ask).await.map_err(|error| classify(&what, error))?;
        let slot = int(&slot).ok_or_else(|| odd_answer("CLUSTER KEYSLOT"))?;
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

/// The servers that an answer of CLUSTER SLOTS names.
pub(crate) fn servers(options: &Options, answer: Value) -> Vec<ConnectionInfo> {
    let asked = options.info.addr().to_string();
    let ranges = ranges(answer, &asked).unwrap_or_default();
    ranges.iter().map(|range| options.info.clone().set_addr(address_of(options, range))).collect()
}

fn address_of(options: &Options, range: &Range) -> ConnectionAddr {
    let (host, port) = (range.host.clone(), range.port);
    match options.info.addr() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
        }
        _ => ConnectionAddr::Tcp(host, port),
    }
}

/// Reads the answer of CLUSTER SLOTS. A server that does not know its own address leaves it empty: then it is
/// the one that was asked.
fn ranges(answer: Value, asked: &str) -> Option<Vec<Range>> {
    let own = asked.rsplit_once(':').map_or(asked, |(host, _)| host);
    let range = |item| -> Option<Range> {
        let mut parts = array(item)?.into_iter();
        let (first, last) = (int(&parts.next()?)?, int(&parts.next()?)?);
        let mut master = array(parts.next()?)?.into_iter();
        let host = text(master.next()?).filter(|host| !host.is_empty()).unwrap_or_else(|| own.to_owned());
        Some(Range { first, last, host, port: u16::try_from(int(&master.next()?)?).ok()? })
    };
    array(answer)?.into_iter().map(range).collect()
}
