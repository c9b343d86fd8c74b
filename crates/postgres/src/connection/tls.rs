//! TLS: certificates are always verified, against the system's roots or a file.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tidemill_core::Error;
use tokio_postgres_rustls::MakeRustlsConnect;

/// A connector that trusts the certificates in `file`, or the system's.
pub(crate) fn connector(file: Option<&Path>) -> Result<MakeRustlsConnect, Error> {
    let roots = match file {
        Some(file) => from_file(file)?,
        None => system_roots()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Unsuitable(format!("TLS is not available: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn system_roots() -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    // One unreadable certificate is no reason to reject the others.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Error::Unsuitable("this system has no root certificates: set sslrootcert".into()));
    }
    Ok(roots)
}

fn from_file(file: &Path) -> Result<RootCertStore, Error> {
    let unreadable = |why: String| Error::Invalid(format!("sslrootcert {}: {why}", file.display()));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| unreadable(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unreadable("holds no certificate".into())) } else { Ok(roots) }
}
