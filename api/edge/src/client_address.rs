//! The address of a request's client, seen past the configured proxies before the switch.
//!
//! Anybody can write `X-Forwarded-For`. An entry counts only if its author is a configured proxy.
//! The author is the next entry to the right, and for the last entry the peer itself.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName};

use crate::peers::PeerNetwork;

/// The header in which proxies name their client.
pub const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address of a request's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// The address behind `peer`.
    pub fn behind(peer: IpAddr, headers: &HeaderMap, trusted: &[PeerNetwork]) -> Self {
        let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
        let mut address = peer.to_canonical();
        let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
        let texts = lines.map(|line| line.to_str().unwrap_or("?"));
        for entry in texts.flat_map(|line| line.rsplit(',')) {
            if !is_trusted(address) {
                break;
            }
            // Beyond an entry that says nothing there is nothing to be known.
            let Some(before) = parse_entry(entry.trim()) else { break };
            address = before;
        }
        Self(address)
    }

    /// The address of a request with these extensions as text; none where it came over no socket.
    pub fn of(extensions: &Extensions) -> Option<String> {
        extensions.get::<Self>().map(|Self(address)| address.to_string())
    }
}

/// An address as proxies write it: alone, in brackets, with a port.
fn parse_entry(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    let address = bare.parse::<IpAddr>().ok();
    let address = address.or_else(|| Some(entry.parse::<SocketAddr>().ok()?.ip()));
    address.map(|address| address.to_canonical())
}

impl<S: Sync> FromRequestParts<S> for ClientAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // Only what is asked without a socket, which is what tests do, comes from nowhere.
        let nowhere = Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Ok(parts.extensions.get().copied().unwrap_or(nowhere))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_counts_where_a_known_proxy_has_added_it() {
        let trusted: Vec<PeerNetwork> =
            ["10.0.0.0/8", "::1"].iter().map(|text| text.parse().unwrap()).collect();
        let rows: [(&str, &[&str], &str); 14] = [
            ("203.0.113.9", &[], "203.0.113.9"),
            ("203.0.113.9", &["198.51.100.1"], "203.0.113.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["1.2.3.4, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["1.2.3.4, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
            ("10.0.0.1", &["1.2.3.4", "198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["198.51.100.1:4711"], "198.51.100.1"),
            ("::1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("::1", &["[2001:db8::1]"], "2001:db8::1"),
            ("::ffff:10.0.0.1", &["::ffff:198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["1.2.3.4, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["1.2.3.4, <b>, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &[""], "10.0.0.1"),
        ];
        for (peer, lines, expected) in rows {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED_FOR, line.parse().unwrap());
            }
            let found = ClientAddress::behind(peer.parse().unwrap(), &headers, &trusted);
            assert_eq!(found.0.to_string(), expected, "{peer} {lines:?}");
        }
    }
}
