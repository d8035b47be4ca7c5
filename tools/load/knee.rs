//! The greatest rate that a switch keeps: doubled until it is too much, then narrowed down.

use cardswitch_load::tally::Tally;
use cardswitch_tools::Outcome;

/// The part of a rate that has to be answered.
const KEPT_SHARE: f64 = 0.99;
/// How often the distance between a kept rate and one that is too much is halved.
const NARROWINGS: u32 = 4;

/// Whether a load kept its rate, with 99% of its answers within `bound_us`.
pub(crate) fn is_kept(tally: &Tally, rate: u64, bound_us: f64) -> bool {
    let is_in_time = tally.latencies.percentile_us(99.0) < bound_us;
    is_in_time && tally.per_second() >= KEPT_SHARE * rate as f64
}

/// Tries rates from `first` on. None where even that is not kept.
/// Errors: those of `keeps`.
pub(crate) fn find(
    first: u64,
    mut keeps: impl FnMut(u64) -> Outcome<bool>,
) -> Outcome<Option<u64>> {
    let (mut kept, mut too_much) = (None, first);
    while keeps(too_much)? {
        kept = Some(too_much);
        too_much = too_much.saturating_mul(2);
    }
    let Some(mut kept) = kept else { return Ok(None) };
    for _ in 0..NARROWINGS {
        let between = kept.midpoint(too_much);
        match keeps(between)? {
            true => kept = between,
            false => too_much = between,
        }
    }
    Ok(Some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_narrowed_down() {
        let mut tried = Vec::new();
        let knee = find(1_000, |rate| {
            tried.push(rate);
            Ok(rate <= 10_100)
        });
        assert_eq!(knee.unwrap(), Some(10_000));
        assert_eq!(tried, [1_000, 2_000, 4_000, 8_000, 16_000, 12_000, 10_000, 11_000, 10_500]);
        assert_eq!(find(1_000, |_| Ok(false)).unwrap(), None);
    }
}
