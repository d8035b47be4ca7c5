//! The place of a cluster's window and the way to reach it: `etcd://HOST:PORT,HOST:PORT/PREFIX`, or
//! `etcds://`
//! for TLS, with files and the user behind a `?`. No secret is part of it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

/// The members of an etcd, and the prefix of the keys of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterAddress {
    /// `host:port` of each member.
    pub endpoints: Vec<String>,
    /// The prefix of its keys, without slashes at the ends.
    pub prefix: String,
    /// How its members are reached.
    pub access: EtcdAccess,
    /// The member that answered any client of this process last: new clients begin with it.
    pub(crate) answering: AnsweringMember,
}

/// The place of a member among those of an address; shared by the clones of the address, and no part of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnsweringMember(Arc<AtomicUsize>);

impl AnsweringMember {
    pub(crate) fn place(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, place: usize) {
        self.0.store(place, Ordering::Relaxed);
    }
}

impl PartialEq for AnsweringMember {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for AnsweringMember {}

/// How the members of an etcd are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdAccess {
    /// By TLS.
    pub is_tls: bool,
    /// The certificates of the authorities that sign those of members, as PEM. Without it, the
    /// system's trusted certificates count.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to members, and its key. PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The user of etcd, and the file of the password.
    pub user: Option<(String, PathBuf)>,
}

/// It is no address of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no cluster: {why}")]
pub struct ClusterAddressError {
    text: String,
    why: &'static str,
}

const SCHEME: &str = "etcd://";
const TLS_SCHEME: &str = "etcds://";
const PORT_DEFAULT: &str = "2379";
const FORM: &str = "write etcd://HOST:PORT,HOST:PORT/NAME";

impl FromStr for ClusterAddress {
    type Err = ClusterAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |why| ClusterAddressError { text: text.to_owned(), why };
        let (rest, is_tls) = match (text.strip_prefix(SCHEME), text.strip_prefix(TLS_SCHEME)) {
            (Some(rest), _) => (rest, false),
            (_, Some(rest)) => (rest, true),
            _ => return Err(wrong(FORM)),
        };
        let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, prefix) = place.split_once('/').ok_or_else(|| wrong(FORM))?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        let prefix = prefix.trim_matches('/');
        if prefix.is_empty() || !prefix.bytes().all(is_name) {
            return Err(wrong(FORM));
        }
        let endpoints: Option<Vec<_>> = hosts.split(',').map(endpoint).collect();
        let endpoints = endpoints.ok_or_else(|| wrong(FORM))?;
        let access = parse_access(parameters, is_tls).map_err(wrong)?;
        let answering = AnsweringMember::default();
        Ok(Self { endpoints, prefix: prefix.to_owned(), access, answering })
    }
}

/// Errors: the fault, in words.
fn parse_access(parameters: &str, is_tls: bool) -> Result<EtcdAccess, &'static str> {
    const NAMES: [&str; 5] = ["ca", "cert", "key", "user", "password-file"];
    let mut values: [Option<String>; 5] = Default::default();
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let named = parameter.split_once('=').filter(|(_, value)| !value.is_empty());
        let place = named.and_then(|(name, _)| NAMES.iter().position(|known| *known == name));
        let (Some(place), Some((_, value))) = (place, named) else {
            return Err(
                "behind `?` stand ca=, cert=, key=, user= and password-file=, joined by `&`",
            );
        };
        if values[place].replace(value.to_owned()).is_some() {
            return Err("a name stands behind `?` twice");
        }
    }
    let [ca, cert, key, user, password_file] = values;
    let certificate = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert.into(), key.into())),
        (None, None) => None,
        _ => return Err("cert= and key= go together"),
    };
    let user = match (user, password_file) {
        (Some(user), Some(file)) => Some((user, file.into())),
        (None, None) => None,
        _ => return Err("user= and password-file= go together"),
    };
    if !is_tls && (ca.is_some() || certificate.is_some()) {
        return Err("ca=, cert= and key= are for etcds://");
    }
    Ok(EtcdAccess { is_tls, ca: ca.map(PathBuf::from), certificate, user })
}

impl fmt::Display for EtcdAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut joint = '?';
        let mut put = |name: &str, value: &dyn fmt::Display| {
            let before = std::mem::replace(&mut joint, '&');
            write!(f, "{before}{name}={value}")
        };
        if let Some(ca) = &self.ca {
            put("ca", &ca.display())?;
        }
        if let Some((certificate, key)) = &self.certificate {
            put("cert", &certificate.display())?;
            put("key", &key.display())?;
        }
        if let Some((user, file)) = &self.user {
            put("user", user)?;
            put("password-file", &file.display())?;
        }
        Ok(())
    }
}

fn endpoint(host: &str) -> Option<String> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let text = if has_port { host.to_owned() } else { format!("{host}:{PORT_DEFAULT}") };
    // A text that HTTP does not take as the name of a host is refused.
    let authority: hyper::http::uri::Authority = text.parse().ok()?;
    (!authority.host().is_empty() && !text.contains('@')).then_some(text)
}

impl TryFrom<String> for ClusterAddress {
    type Error = ClusterAddressError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ClusterAddress> for String {
    fn from(address: ClusterAddress) -> Self {
        address.to_string()
    }
}

impl fmt::Display for ClusterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.access.is_tls { TLS_SCHEME } else { SCHEME };
        write!(f, "{scheme}{}/{}{}", self.endpoints.join(","), self.prefix, self.access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_members_and_a_prefix() {
        let cases = [
            ("etcd://a:1,b:2/prod", Some((vec!["a:1", "b:2"], "prod"))),
            ("etcd://a,10.0.0.1:99/x/y/", Some((vec!["a:2379", "10.0.0.1:99"], "x/y"))),
            ("etcd://[::1]:2379/p", Some((vec!["[::1]:2379"], "p"))),
            ("etcd://a:1", None),
            ("etcd://a:1/", None),
            ("etcd://,a/p", None),
            ("etcd://user@a/p", None),
            ("etcd://a/p q", None),
            ("http://a/p", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(endpoints, prefix)| ClusterAddress {
                answering: AnsweringMember::default(),
                endpoints: endpoints.into_iter().map(str::to_owned).collect(),
                prefix: prefix.to_owned(),
                access: EtcdAccess::default(),
            });
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }

    #[test]
    fn what_it_is_reached_by_stands_behind_it() {
        for text in [
            "etcd://a:1,b:2/prod",
            "etcd://a:1/prod?user=u&password-file=/p",
            "etcds://a:1/prod",
            "etcds://a:1,b:2/prod?ca=/ca.pem&cert=/c.pem&key=/k.pem&user=u&password-file=/p",
        ] {
            let address: ClusterAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.access.is_tls, text.starts_with("etcds"), "{text}");
        }
        for (text, why) in [
            ("etcd://a/p?ca=/ca.pem", "for etcds://"),
            ("etcds://a/p?cert=/c.pem", "go together"),
            ("etcds://a/p?user=u", "go together"),
            ("etcds://a/p?ca=/a&ca=/b", "twice"),
            ("etcds://a/p?password=x", "behind `?`"),
            ("etcds://a/p?ca=", "behind `?`"),
        ] {
            let error = text.parse::<ClusterAddress>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
