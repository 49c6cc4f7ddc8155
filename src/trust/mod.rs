//! Whom this machine trusts: the certificates by which servers are known that the program connects to.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Where Linux distributions keep the certificates that the machine trusts.
const SYSTEM_ROOTS: &[&str] = &["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];
/// The variable by which other programs are told of another list.
const VARIABLE: &str = "SSL_CERT_FILE";

/// The certificates in this file; without one, those that the machine trusts.
pub(crate) fn certificates(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, String> {
    let file = match file {
        Some(file) => file.to_owned(),
        None => trusted()?,
    };
    let text = fs::read(&file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| format!("{} holds no certificates: {error}", file.display()))?;
    if found.is_empty() { Err(format!("{} holds no certificates", file.display())) } else { Ok(found) }
}

fn trusted() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    let found = SYSTEM_ROOTS.iter().map(PathBuf::from).find(|path| path.exists());
    found.ok_or_else(|| {
        format!("this machine has no list of trusted certificates; install ca-certificates, or set {VARIABLE}")
    })
}

/// How the server at this URL is known. A URL without TLS needs no certificates.
pub(crate) fn tls_for(url: &str) -> Result<TlsConfig, String> {
    let trusted = if url.starts_with("https://") { certificates(None)? } else { Vec::new() };
    let trusted: Vec<Certificate<'static>> =
        trusted.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&trusted))
        .build())
}
