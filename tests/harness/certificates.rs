//! Certificates for members of etcd, doors and their clients, as `openssl` makes them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installation::text_of;

/// A signer of certificates.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    name: String,
}

/// A certificate and its key. PEM.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

const KEY: [&str; 6] =
    ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-batch"];

impl Authority {
    /// Makes one that nobody else knows.
    #[track_caller]
    pub fn new(folder: &Path, name: &str) -> Self {
        let authority = Self { folder: folder.to_path_buf(), name: name.to_owned() };
        let Certificate { certificate, key } = authority.files(name);
        let subject = format!("/CN={name}");
        let out = ["-subj", &subject, "-keyout", text_of(&key), "-out", text_of(&certificate)];
        openssl(&[&["req", "-x509", "-days", "2"], &KEY[..], &out].concat());
        authority
    }

    /// Its own certificate.
    pub fn certificate(&self) -> PathBuf {
        self.files(&self.name).certificate
    }

    /// Signs a certificate of the loopback, for servers and clients.
    #[track_caller]
    pub fn issue(&self, name: &str) -> Certificate {
        self.issue_for(name, "IP:127.0.0.1,DNS:localhost")
    }

    /// As `issue`, of the hosts that these alternative names of openssl name.
    #[track_caller]
    pub fn issue_for(&self, name: &str, hosts: &str) -> Certificate {
        let files = self.files(name);
        let own = self.files(&self.name);
        let request = self.folder.join(format!("{name}.csr"));
        let further = self.folder.join(format!("{name}.ext"));
        let purposes = format!("subjectAltName={hosts}\nextendedKeyUsage=serverAuth,clientAuth\n");
        std::fs::write(&further, purposes).expect("a file can be written");
        let subject = format!("/CN={name}");
        let out = ["-subj", &subject, "-keyout", text_of(&files.key), "-out", text_of(&request)];
        openssl(&[&["req"], &KEY[..], &out].concat());
        let signed = ["-in", text_of(&request), "-out", text_of(&files.certificate)];
        let by = ["-CA", text_of(&own.certificate), "-CAkey", text_of(&own.key), "-CAcreateserial"];
        let with = ["-days", "2", "-extfile", text_of(&further)];
        openssl(&[&["x509", "-req"], &signed[..], &by, &with].concat());
        files
    }

    fn files(&self, name: &str) -> Certificate {
        let file = |ending: &str| self.folder.join(format!("{name}.{ending}"));
        Certificate { certificate: file("pem"), key: file("key") }
    }
}

#[track_caller]
fn openssl(arguments: &[&str]) {
    let done = Command::new("openssl").args(arguments).output();
    let done = done.expect("openssl is installed, as `./test` does");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
