//! From what the server or the driver says to what the caller can do about it. The only such place.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tidemill_core::Error;

use crate::inspect::damage::DAMAGED;

/// What an error about missing rights begins with, once they are known by name.
pub(crate) const DENIED: &str = "the user lacks a right";

/// Classifies an error of the driver. `what` says what was tried.
pub(crate) fn classify(what: &str, error: RedisError) -> Error {
    let code = error.code().unwrap_or_default().to_owned();
    let text = error.to_string();
    if let (true, Some(keys)) = (text.starts_with(DAMAGED), error.detail()) {
        return Error::Unsuitable(format!("{what}: {keys}"));
    }
    if let (true, Some(rights)) = (text.starts_with(DENIED), error.detail()) {
        return Error::Denied(format!("{what}: {rights}"));
    }
    match code.as_str() {
        "OOM" => Error::Full("Redis is out of memory".into()),
        "READONLY" => Error::unavailable("this Redis server is a read-only replica", error),
        "MISCONF" => Error::Full(format!("Redis cannot persist: {text}")),
        "NOAUTH" | "WRONGPASS" => Error::Denied(text),
        "WRONGTYPE" => Error::Unsuitable(format!("a key holds something else than it should: {text}")),
        _ if is_without_master(&error) => Error::unavailable(what, error),
        "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" | "BUSY" | "MOVED" | "ASK" | "NOREPLICAS" => {
            Error::unavailable(what, error)
        }
        // In a transaction the first refusal hides behind the abort.
        "EXECABORT" if text.contains("OOM") => Error::Full("Redis is out of memory".into()),
        _ if is_authentication(&error) => Error::Denied(text),
        _ if is_denied(&error) => Error::Denied(format!(
            "{what}: {text}: `tidemill doctor` shows the ACL SETUSER line that grants it"
        )),
        _ if is_certificate(&text) => {
            let advice = "name the authority of its certificate with ssl_ca_certs=FILE";
            Error::Unsuitable(format!("{what}: the server's certificate is not trusted: {advice} ({text})"))
        }
        _ if is_certificate_wanted(&text) => {
            let advice = "name them with ssl_certfile=FILE and ssl_keyfile=FILE";
            Error::Unsuitable(format!(
                "{what}: the server wants a certificate and key of the client: {advice} ({text})"
            ))
        }
        _ if is_connection(&error) && was_sent(&error) => Error::unanswered(what, error),
        _ if is_connection(&error) => Error::unavailable(what, error),
        _ if text.contains("OOM command not allowed") => Error::Full("Redis is out of memory".into()),
        _ => Error::Unsuitable(format!("{what}: {text}")),
    }
}

fn is_authentication(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
}

/// Whether TLS does not trust the server.
fn is_certificate(text: &str) -> bool {
    text.contains("invalid peer certificate")
}

/// Whether the server does not trust a client without a certificate, or with this one.
fn is_certificate_wanted(text: &str) -> bool {
    text.contains("CertificateRequired") || text.contains("BadCertificate") || text.contains("UnknownCA")
}

/// Whether no Sentinel knows a working master: the name is wrong, or a failover is under way.
fn is_without_master(error: &RedisError) -> bool {
    error.kind() == ErrorKind::MasterNameNotFoundBySentinel
}

/// Whether the user lacks a right: to a command, a key or a channel, alone or in a script.
pub(crate) fn is_denied(error: &RedisError) -> bool {
    // In a script, of Redis 7.0 and of later ones; and of EXEC.
    let elsewhere =
        ["The user executing the script can't", "ACL failure in script", "because of: NOPERM", DENIED];
    error.code() == Some("NOPERM") || {
        let text = error.to_string();
        elsewhere.iter().any(|words| text.contains(words))
    }
}

/// Whether the connection is to blame, so that the next call should open another. A master that has become a replica
/// is another's to be found.
pub(crate) fn is_connection(error: &RedisError) -> bool {
    error.is_io_error()
        || error.code() == Some("READONLY")
        || error.is_timeout()
        || error.is_connection_dropped()
        || error.is_connection_refusal()
}

/// No connection could be opened, so nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotConnected(RedisError);

/// Marks an error of opening a connection, so that it is not taken for that of a command whose answer was lost. What the
/// server has said is left as it is.
pub(crate) fn not_connected(error: RedisError) -> RedisError {
    if !is_connection(&error) {
        return error;
    }
    RedisError::from(io::Error::new(io::ErrorKind::NotConnected, NotConnected(error)))
}

/// Whether a command may have reached the server before the connection broke.
fn was_sent(error: &RedisError) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<Arc<dyn StdError + Send + Sync>>());
    let io = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    !io.and_then(io::Error::get_ref).is_some_and(|inner| inner.is::<NotConnected>())
}

/// The first refusal of a pipeline or transaction, as if its command had been sent alone. The driver's summary
/// of them has no code, and so nothing to classify.
pub(crate) fn first_of(error: RedisError) -> RedisError {
    let refused = error.clone().into_server_errors();
    match refused.as_deref() {
        Some([(_, first), ..]) => RedisError::from(first.clone()),
        _ => error,
    }
}

/// Whether the server has forgotten a script.
pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Whether the slot lives elsewhere now. The command was not executed.
pub(crate) fn is_moved(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::Moved)
}

/// Whether a stream or its group is missing: after FLUSHALL, or before the first read.
pub(crate) fn is_no_group(error: &RedisError) -> bool {
    error.code() == Some("NOGROUP")
}

/// An answer that is not of the shape the protocol promises.
pub(crate) fn odd_answer(what: &str) -> Error {
    Error::Corrupt(format!("Redis gave an unexpected answer to {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sent_may_have_taken_effect() {
        let refused = || RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert!(matches!(classify("a", not_connected(refused())), Error::Unavailable { .. }));
        assert!(matches!(classify("a", refused()), Error::Unanswered { .. }));
        let denied = RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        assert!(matches!(classify("a", not_connected(denied)), Error::Denied(_)));
    }
}
