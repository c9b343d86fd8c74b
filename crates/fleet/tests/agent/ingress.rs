//! Browsers that gateways on other machines reach.

use tokio_tungstenite::connect_async;

use crate::scene::Scene;

#[tokio::test]
async fn a_browser_is_reached_through_the_ingress_by_its_own_path_only() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let scene = Scene::with(|agent| agent.listen(free, free.to_string())).await;
    scene.see("a browser", |members| members.len() == 1).await;
    let (_, grant) = scene.lease("chromium", "cdp").await.unwrap();
    assert!(grant.endpoint.starts_with(&format!("ws://{free}/")), "{}", grant.endpoint);
    let (_client, answer) = connect_async(&grant.endpoint).await.unwrap();
    assert_eq!(answer.status(), 101);
    for other in ["", "devtools/browser/1", "json/version"] {
        let refused = connect_async(format!("ws://{free}/{other}")).await.unwrap_err();
        assert!(refused.to_string().contains("404"), "{refused}");
    }
    scene.end().await;
}
