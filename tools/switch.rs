//! The switch under measurement, as tests start it: loads on its doors, and the time that it uses.

use std::fs;
use std::net::SocketAddr;

use cardswitch_feed::Card;
use cardswitch_load::clock::SECOND_NS;
use cardswitch_load::iso::{Iso, PurchaseSettings};
use cardswitch_load::load::Load;
use cardswitch_load::tally::Tally;

use crate::Outcome;

/// Puts authorizations through an ISO 8583 door.
/// Errors: nobody is there.
pub fn load_door(address: SocketAddr, cards: &[Card], load: &Load) -> Outcome<Tally> {
    load.carry_out(&[address], Iso::new(cards, PurchaseSettings::default())?)
}

/// The time of processors that a process has used so far. Units: nanoseconds.
/// Errors: it is gone.
pub fn cpu_ns(pid: u32) -> Outcome<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = ticks_in(&stat).ok_or("the process is gone")?;
    Ok(ticks * (SECOND_NS / rustix::param::clock_ticks_per_second()))
}

/// The ticks of a process. Source: proc(5), utime and stime of `stat`.
fn ticks_in(stat: &str) -> Option<u64> {
    // The name of the program may have spaces; its closing parenthesis is the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(ticks()? + ticks()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 30 12 0 0 20 0 5 0";
        assert_eq!((ticks_in(stat), ticks_in("7 (gone)")), (Some(42), None));
    }
}
