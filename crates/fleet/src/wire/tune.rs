//! How the connections of a session are set up, on both sides.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// After how long a silence the other side is asked whether it is still there, and how often again.
const SILENCE: Duration = Duration::from_secs(30);

/// How long each question waits for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// How many questions without an answer mean that nobody is there.
const QUESTIONS: u32 = 3;

/// Sends messages at once, for they are small and each is waited for; and finds out when a machine is gone that did not
/// say so: silence is no sign of it, and a session may be silent for long.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let asked = TcpKeepalive::new().with_time(SILENCE).with_interval(ANSWER).with_retries(QUESTIONS);
    SockRef::from(stream).set_tcp_keepalive(&asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_silent_side_is_asked_whether_it_is_there() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        tune(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && stream.nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), SILENCE);
    }
}
