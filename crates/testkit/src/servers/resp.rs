//! The part of the Redis protocol that is needed to detect a running server and to create a
//! cluster.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::ServerError;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends one command on a separate connection and returns the text of a simple or bulk answer.
pub(super) fn send(port: u16, command: &[&str]) -> Result<String, ServerError> {
    send_with_password(port, None, command)
}

/// The same after sending a password.
pub(super) fn send_with_password(
    port: u16,
    password: Option<&str>,
    command: &[&str],
) -> Result<String, ServerError> {
    let mut socket = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), TIMEOUT)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let mut answers = BufReader::new(socket.try_clone()?);
    if let Some(password) = password {
        socket.write_all(&encode(&["AUTH", password]))?;
        read(&mut answers)?;
    }
    socket.write_all(&encode(command))?;
    read(&mut answers)
}

/// One field of an `INFO`-like answer: lines of `name:value`.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn encode(command: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", command.len());
    for word in command {
        out.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    out.into_bytes()
}

fn read(from: &mut impl BufRead) -> Result<String, ServerError> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let line = line.trim_end();
    match line.split_at_checked(1) {
        Some(("+" | ":", text)) => Ok(text.to_owned()),
        Some(("$", length)) => read_bulk(from, length),
        Some(("-", error)) => Err(ServerError::new(error)),
        _ => Err(ServerError::new(format!("not an answer of Redis: {line:?}"))),
    }
}

fn read_bulk(from: &mut impl BufRead, length: &str) -> Result<String, ServerError> {
    let length: usize =
        length.parse().map_err(|_| ServerError::new(format!("a bulk of length {length:?}")))?;
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
