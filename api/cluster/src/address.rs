//! Where a cluster's window is: `etcd://HOST:PORT,HOST:PORT/PREFIX`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The members of an etcd, and what the keys of one cluster begin with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterAddress {
    /// `host:port` of each member.
    pub endpoints: Vec<String>,
    /// What its keys begin with, without slashes at the ends.
    pub prefix: String,
}

/// It is no address of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no cluster: write etcd://HOST:PORT,HOST:PORT/NAME")]
pub struct ClusterAddressError(String);

const SCHEME: &str = "etcd://";
const PORT_DEFAULT: &str = "2379";

impl FromStr for ClusterAddress {
    type Err = ClusterAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ClusterAddressError(text.to_owned());
        let rest = text.strip_prefix(SCHEME).ok_or_else(wrong)?;
        let (hosts, prefix) = rest.split_once('/').ok_or_else(wrong)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        let prefix = prefix.trim_matches('/');
        if prefix.is_empty() || !prefix.bytes().all(is_name) {
            return Err(wrong());
        }
        let endpoints: Vec<_> =
            hosts.split(',').map(endpoint).collect::<Option<_>>().ok_or_else(wrong)?;
        Ok(Self { endpoints, prefix: prefix.to_owned() })
    }
}

fn endpoint(host: &str) -> Option<String> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let text = if has_port { host.to_owned() } else { format!("{host}:{PORT_DEFAULT}") };
    // What HTTP would not take as the name of a host.
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
        write!(f, "{SCHEME}{}/{}", self.endpoints.join(","), self.prefix)
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
                endpoints: endpoints.into_iter().map(str::to_owned).collect(),
                prefix: prefix.to_owned(),
            });
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
        let address: ClusterAddress = "etcd://a:1,b:2/prod".parse().unwrap();
        assert_eq!(address.to_string(), "etcd://a:1,b:2/prod");
    }
}
