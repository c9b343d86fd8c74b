//! What pages can say past a proxy.

use tidemill_fleet::agent::Engine;

use crate::client::{BrowserClient, Library, Way};
use crate::world::World;

/// Every address at which a page would have others speak to it by WebRTC.
const ADDRESSES: &str = "(async () => {
  const peer = new RTCPeerConnection(), found = [];
  peer.createDataChannel('x');
  const done = new Promise(end => { peer.onicecandidate = e => e.candidate ? found.push(e.candidate.candidate) : end(); });
  await peer.setLocalDescription(await peer.createOffer());
  await done;
  return found;
})()";

#[tokio::test]
async fn pages_do_not_speak_udp_past_a_proxy() {
    for engine in [Engine::HeadlessShell, Engine::Chromium] {
        let world = World::with(|agent| agent.engine(engine)).await;
        let mut client = BrowserClient::start(Library::Puppeteer).await;
        client.connect(Way::Puppeteer, &world.ws("/")).await.unwrap();
        client.open(&world.site.url).await;
        assert_eq!(client.evaluate(ADDRESSES).await, serde_json::json!([]));
        client.end().await;
        world.end().await;
    }
}
