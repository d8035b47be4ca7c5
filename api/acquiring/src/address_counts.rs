//! How many of something each address has, so that one leaves places to others.
//!
//! The addresses of one IPv6 /64 count as one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// The counts. An address with none has no entry.
#[derive(Clone, Debug, Default)]
pub struct AddressCounts(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// Some of what an address has, until it is dropped.
#[derive(Debug)]
pub struct AddressPlace {
    counts: AddressCounts,
    network: IpAddr,
    count: usize,
}

impl AddressCounts {
    /// A place of `address` that has none yet.
    pub fn place(&self, address: IpAddr) -> AddressPlace {
        AddressPlace { counts: self.clone(), network: network_of(address), count: 0 }
    }

    /// Takes one more place, unless `address` has `max`.
    pub fn take(&self, address: IpAddr, max: usize) -> Option<AddressPlace> {
        let mut place = self.place(address);
        place.set(1, max).then_some(place)
    }

    /// How many an address has.
    pub fn of(&self, address: IpAddr) -> usize {
        self.0.lock().get(&network_of(address)).copied().unwrap_or_default()
    }

    /// Whether nobody has any.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl AddressPlace {
    /// From now on it has `count`, unless that is more than before and its address would have more than
    /// `max`. Returns whether it has.
    pub fn set(&mut self, count: usize, max: usize) -> bool {
        let mut counts = self.counts.0.lock();
        let others = counts.get(&self.network).map_or(0, |all| all - self.count);
        if count > self.count && others + count > max {
            return false;
        }
        match others + count {
            0 => drop(counts.remove(&self.network)),
            all => drop(counts.insert(self.network, all)),
        }
        self.count = count;
        true
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        if self.count > 0 {
            self.set(0, 0);
        }
    }
}

/// The address itself, or the /64 that an IPv6 address is of.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6([a, b, c, d, 0, 0, 0, 0].into())
        }
        IpAddr::V4(address) => IpAddr::V4(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let counts = AddressCounts::default();
        let take = |text: &str| counts.take(text.parse().unwrap(), 2);
        let held = [take("2001:db8::1").unwrap(), take("2001:db8::2").unwrap()];
        assert!(take("2001:db8::3").is_none());
        assert!(take("2001:db8:0:1::1").is_some() && take("192.0.2.1").is_some());
        drop(held);
        assert!(counts.is_empty(), "who is gone is forgotten");
        assert!(counts.take("192.0.2.1".parse().unwrap(), 0).is_none());
        assert!(counts.is_empty(), "and so is who was refused");
    }

    #[test]
    fn addresses_of_one_network_are_one() {
        let rows = [
            ("203.0.113.7", "203.0.113.7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ];
        for (address, network) in rows {
            let network: IpAddr = network.parse().unwrap();
            assert_eq!(network_of(address.parse().unwrap()), network, "{address}");
        }
    }
}
