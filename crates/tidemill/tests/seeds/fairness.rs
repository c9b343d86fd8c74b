//! Parallel reads: the batch size is divided over streams and shards, and the larger share is
//! random.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use crate::world::{Working, World, open_gate};

/// The stream and the COUNT of a read, from a line that a monitor prints.
fn read(line: &str) -> Option<(String, u64)> {
    let words: Vec<_> = line.split('"').skip(1).step_by(2).collect();
    let after = |word| words.iter().position(|found| *found == word).map(|at| words[at + 1]);
    let stream = after("STREAMS").filter(|_| words[0] == "XREADGROUP")?;
    Some((stream.to_owned(), after("COUNT")?.parse().ok()?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_ten_over_three_streams_is_four_three_and_three() {
    let world = World::new().await;
    let lines = world.monitor();
    let worker = world.worker_of_workflows().block(Duration::from_secs(1)).batch_size(10);
    let working = Working::start(worker);
    let counts = tokio::task::spawn_blocking(move || {
        let mut counts = BTreeMap::new();
        for line in lines {
            if let Some((stream, count)) = read(&line) {
                assert!(line.contains(r#""GROUP" "aiki-workers""#), "{line}");
                assert!(line.contains(r#""BLOCK" "1000""#), "{line}");
                counts.insert(stream, count);
            }
            if counts.len() == 3 {
                break;
            }
        }
        counts
    });
    let counts = counts.await.unwrap();
    working.stop().await;
    let streams = ["workflow:held", "workflow:order-processing", "workflow:orders"];
    assert_eq!(counts.keys().map(String::as_str).collect::<Vec<_>>(), streams);
    let mut shares: Vec<_> = counts.into_values().collect();
    shares.sort_unstable();
    assert_eq!(shares, [3, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_spread_over_shards_and_the_larger_share_is_drawn() {
    let world = World::with("?shards=3").await;
    let lines = world.monitor();
    let worker = world.worker(open_gate()).block(Duration::from_millis(10)).batch_size(40);
    let working = Working::start(worker);
    let larger = tokio::task::spawn_blocking(move || {
        // Four queues have ten each, of which each shard gets four or three.
        let mut larger = HashSet::new();
        for (stream, count) in lines.filter_map(|line| read(&line)) {
            let is_of_orders = stream.ends_with("}workflow:orders");
            assert!(count <= 4, "{count} of {stream}");
            if is_of_orders && count == 4 {
                larger.insert(stream);
            }
            if larger.len() == 3 {
                break;
            }
        }
        larger
    });
    assert_eq!(larger.await.unwrap().len(), 3);
    working.stop().await;
}
