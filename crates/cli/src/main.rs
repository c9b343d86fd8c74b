//! tmp
mod bench;
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("sqlite:bench.db".into());
    let jobs = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(50_000);
    let plan = bench::Plan { jobs, rounds: 3, latency_samples: 300 };
    for row in bench::run(&url, &plan, &|s: &str| eprintln!("{s}")).await? {
        println!("{}", serde_json::to_string(&row)?);
    }
    Ok(())
}
