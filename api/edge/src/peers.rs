//! The peers that the ISO 8583 door admits: addresses and networks, loopback alone by default.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// An address, or a network of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerNetwork {
    address: IpAddr,
    prefix_bits: u8,
}

impl PeerNetwork {
    /// The addresses of this machine itself.
    pub const LOOPBACK: [Self; 2] = [
        Self { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), prefix_bits: 8 },
        Self { address: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix_bits: 128 },
    ];

    /// The addresses of everybody.
    const WORLD: [Self; 2] = [
        Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix_bits: 0 },
        Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix_bits: 0 },
    ];

    /// Whether the address belongs to it. IPv4 addresses count as such in IPv6 clothes, too.
    pub fn contains(&self, peer: IpAddr) -> bool {
        match (self.address, peer.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(peer)) => {
                let shift = 32 - u32::from(self.prefix_bits);
                let differing = network.to_bits() ^ peer.to_bits();
                differing.checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(peer)) => {
                let shift = 128 - u32::from(self.prefix_bits);
                let differing = network.to_bits() ^ peer.to_bits();
                differing.checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// The admission rule of a door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The peers whose connections are taken.
    pub peers: Vec<PeerNetwork>,
    /// Whether the door listens to more than this machine and yet takes nobody else's.
    pub is_shut: bool,
}

/// Why nobody can be admitted so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionError {
    /// The text is no address, no network and not `any`.
    NoNetwork(String),
    /// The network is everybody, at an address that others reach.
    World(String),
}

impl Admission {
    /// The word for everybody.
    const ANY: &'static str = "any";

    /// The rule of a door at `address`. Only the word `any` admits everybody there: a network of
    /// all addresses is more often an oversight.
    pub fn at(address: SocketAddr, texts: &[String]) -> Result<Self, AdmissionError> {
        let is_reached = !address.ip().is_loopback();
        let mut peers = Vec::with_capacity(texts.len());
        for text in texts {
            if text == Self::ANY {
                peers.extend(PeerNetwork::WORLD);
                continue;
            }
            let network: PeerNetwork =
                text.parse().map_err(|_| AdmissionError::NoNetwork(text.clone()))?;
            if is_reached && network.prefix_bits == 0 {
                return Err(AdmissionError::World(text.clone()));
            }
            peers.push(network);
        }
        let is_shut = is_reached && peers.iter().all(|network| network.address.is_loopback());
        Ok(Self { peers, is_shut })
    }
}

/// The text is no address and no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither an address nor a network such as `10.0.0.0/8`")]
pub struct PeerNetworkError;

impl FromStr for PeerNetwork {
    type Err = PeerNetworkError;

    fn from_str(text: &str) -> Result<Self, PeerNetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| PeerNetworkError)?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| PeerNetworkError)?,
            None => bits_max,
        };
        if prefix_bits > bits_max {
            return Err(PeerNetworkError);
        }
        Ok(Self { address, prefix_bits })
    }
}

impl fmt::Display for PeerNetwork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses_and_no_others() {
        let rows = [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db9::1", true),
        ];
        for (network, peer, is_within) in rows {
            let parsed: PeerNetwork = network.parse().unwrap();
            assert_eq!(parsed.contains(peer.parse().unwrap()), is_within, "{network} {peer}");
        }
    }

    #[test]
    fn the_default_is_loopback_alone() {
        let is_let_in = |peer: &str| {
            let peer = peer.parse().unwrap();
            PeerNetwork::LOOPBACK.iter().any(|network| network.contains(peer))
        };
        assert!(is_let_in("127.0.0.1") && is_let_in("::1") && is_let_in("::ffff:127.0.0.1"));
        assert!(!is_let_in("10.0.0.1") && !is_let_in("192.168.1.1") && !is_let_in("2001:db8::1"));
    }

    #[test]
    fn the_world_is_admitted_by_its_word_alone() {
        let (here, reached) = ("127.0.0.1:8583", "0.0.0.0:8583");
        let rows = [
            (here, "127.0.0.0/8", Ok(false)),
            (reached, "127.0.0.0/8 ::1", Ok(true)),
            (reached, "127.0.0.0/8 10.0.0.0/8", Ok(false)),
            (reached, "", Ok(true)),
            (here, "0.0.0.0/0", Ok(false)),
            (reached, "10.0.0.0/8 0.0.0.0/0", Err(AdmissionError::World("0.0.0.0/0".to_owned()))),
            ("[::]:8583", "::/0", Err(AdmissionError::World("::/0".to_owned()))),
            (reached, "any", Ok(false)),
            (reached, "anybody", Err(AdmissionError::NoNetwork("anybody".to_owned()))),
        ];
        for (address, texts, expected) in rows {
            let texts: Vec<_> = texts.split_whitespace().map(str::to_owned).collect();
            let admission = Admission::at(address.parse().unwrap(), &texts);
            assert_eq!(
                admission.map(|admission| admission.is_shut),
                expected,
                "{address} {texts:?}"
            );
        }
        let any = Admission::at(reached.parse().unwrap(), &["any".to_owned()]).unwrap();
        for peer in ["203.0.113.9", "2001:db8::1", "127.0.0.1"] {
            assert!(any.peers.iter().any(|network| network.contains(peer.parse().unwrap())));
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in
            ["", "localhost", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "::/129", "10.0.0.0/-1"]
        {
            assert_eq!(text.parse::<PeerNetwork>(), Err(PeerNetworkError), "{text}");
        }
    }
}
