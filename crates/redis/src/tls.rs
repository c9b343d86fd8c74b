//! TLS certificates that a URL names: a private authority, and a client certificate.

use std::fs;

use redis::{Client, ClientTlsConfig, ConnectionInfo, TlsCertificates};
use tidemill_core::Error;

use crate::url::invalid_url;

/// The parameters have the names of redis-py, which Celery and Django users know.
pub(crate) const CA_CERTS_PARAM: &str = "ssl_ca_certs";
pub(crate) const CERT_FILE_PARAM: &str = "ssl_certfile";
pub(crate) const KEY_FILE_PARAM: &str = "ssl_keyfile";

/// The certificate files that a URL names.
#[derive(Default)]
pub(crate) struct CertificateFiles {
    pub(crate) authority: Option<String>,
    pub(crate) certificate: Option<String>,
    pub(crate) key: Option<String>,
}

impl CertificateFiles {
    pub(crate) fn is_empty(&self) -> bool {
        self.authority.is_none() && self.certificate.is_none() && self.key.is_none()
    }

    /// Reads the files. Errors name the parameter and the file.
    pub(crate) fn read(&self) -> Result<TlsCertificates, Error> {
        let root_cert = self
            .authority
            .as_deref()
            .map(|file| read_pem(CA_CERTS_PARAM, file, "CERTIFICATE"))
            .transpose()?;
        let client_tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some(ClientTlsConfig {
                client_cert: read_pem(CERT_FILE_PARAM, certificate, "CERTIFICATE")?,
                client_key: read_pem(KEY_FILE_PARAM, key, "PRIVATE KEY")?,
            }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(invalid_url(&format!("has {CERT_FILE_PARAM} without {KEY_FILE_PARAM}")));
            }
            (None, Some(_)) => {
                return Err(invalid_url(&format!("has {KEY_FILE_PARAM} without {CERT_FILE_PARAM}")));
            }
        };
        Ok(TlsCertificates { client_tls, root_cert })
    }
}

fn read_pem(parameter: &str, file: &str, what: &str) -> Result<Vec<u8>, Error> {
    let read = fs::read(file);
    let bytes =
        read.map_err(|error| invalid_url(&format!("has {parameter}={file}, which cannot be read: {error}")))?;
    let text = String::from_utf8_lossy(&bytes);
    if !text.lines().any(|line| line.starts_with("-----BEGIN ") && line.contains(what)) {
        return Err(invalid_url(&format!("has {parameter}={file}, which has no {what} in PEM form")));
    }
    Ok(bytes)
}

/// The same connection with these certificates.
pub(crate) fn with_certificates(
    info: ConnectionInfo,
    certificates: TlsCertificates,
) -> Result<ConnectionInfo, Error> {
    let client = Client::build_with_tls(info, certificates)
        .map_err(|error| invalid_url(&format!("names certificates that cannot be used: {error}")))?;
    Ok(client.get_connection_info().clone())
}
