//! The raw loop beside the store.

mod place;

use bytes::Bytes;
use place::{Place, scene};
use tidemill_sqlite::{Options, floors};

#[tokio::test]
async fn the_raw_loop_moves_everything_once_and_leaves_nothing() {
    let place = Place::new();
    let store = place.open().await;
    scene(&store).enqueue_many(2).await;
    let floors = floors(Options::file(place.path())).await.unwrap();
    let [floor] = &floors[..] else { panic!("one floor") };
    assert_eq!((floor.work(), floor.batch().enqueue, floor.batch().claim), ("table", 256, 256));
    floor.enqueue(&vec![Bytes::from_static(b"{}"); 300]).await.unwrap();
    assert_eq!(floor.claim(256).await.unwrap(), 256);
    assert_eq!(floor.claim(256).await.unwrap(), 44);
    assert_eq!(floor.claim(256).await.unwrap(), 0);
    assert_eq!(floor.wait().await.unwrap(), None);
    floor.clear().await.unwrap();
    let left = "SELECT count(*) FROM sqlite_schema WHERE name = 'tidemill_floor'";
    assert_eq!(place.raw().query_row(left, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    drop(store);
    place.open().await;
}
