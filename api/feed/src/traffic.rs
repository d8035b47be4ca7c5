//! The traffic of a run: when purchases are made, and the draws of each plan.
//!
//! Every later step (settlement, reversal, a repeat) is drawn at once with the purchase, so that
//! answers decide only whether a step happens, never what it is.

use super::merchants::{Price, catalogue};
use super::plan::{
    CardCredentials, Clearing, CredentialChoice, Fate, Opening, Payer, Plan, PurchaseReference,
    Return,
};
use super::portfolio::{Portfolio, Profile};
use super::random::Draws;

/// Microseconds in a second, a minute, an hour and a day.
pub(super) const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;
const HOUR_US: u64 = 60 * MINUTE_US;
const DAY_US: u64 = 24 * HOUR_US;

/// The traffic of each hour of the day (UTC), in thousandths of the mean; the hours add up to
/// 24,000.
const DAILY_SHAPE: [u64; 24] = [
    700, 500, 350, 250, 200, 200, 250, 400, 650, 900, 1050, 1200, 1450, 1500, 1350, 1300, 1400,
    1600, 1850, 1900, 1700, 1400, 1100, 800,
];

/// Stream of the arrivals; purchase `n` draws from stream `n + 1`.
const ARRIVALS_STREAM: u64 = 0;

/// The delays of actions: seconds for people who watch, days on virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PurchasePace {
    settle_us: (u64, u64),
    settle_late_us: (u64, u64),
    reverse_us: (u64, u64),
    time_out_us: (u64, u64),
    repeat_us: (u64, u64),
    refund_us: (u64, u64),
    burst_gap_us: u64,
    daily_shape: bool,
}

impl PurchasePace {
    /// The time from one parcel to the next.
    pub(super) fn parcel_us(&self) -> u64 {
        self.settle_us.0
    }

    /// The time that an acquirer waits before it tries again.
    pub(super) fn retry_us(&self) -> u64 {
        self.repeat_us.1
    }
}

/// Settlement a few seconds later; arrivals keep the rate that was asked for.
pub(super) const REAL_PACE: PurchasePace = PurchasePace {
    settle_us: (SECOND_US, 4 * SECOND_US),
    settle_late_us: (4 * SECOND_US, 5 * SECOND_US),
    reverse_us: (SECOND_US / 2, 2 * SECOND_US),
    time_out_us: (SECOND_US, 3 * SECOND_US),
    repeat_us: (20_000, SECOND_US),
    refund_us: (SECOND_US / 2, 2 * SECOND_US),
    burst_gap_us: 50_000,
    daily_shape: false,
};

/// Settlement days later; arrivals follow the hours of the day.
pub(super) const VIRTUAL_PACE: PurchasePace = PurchasePace {
    settle_us: (DAY_US, 4 * DAY_US),
    settle_late_us: (5 * DAY_US, 6 * DAY_US),
    reverse_us: (MINUTE_US, 8 * HOUR_US),
    time_out_us: (15 * SECOND_US, 60 * SECOND_US),
    repeat_us: (SECOND_US, 30 * SECOND_US),
    refund_us: (DAY_US, 10 * DAY_US),
    burst_gap_us: 2 * SECOND_US,
    daily_shape: true,
};

/// Makes plans in the order of their arrival, without end.
pub(super) struct Traffic {
    seed: u64,
    pace: PurchasePace,
    arrivals: Draws,
    mean_gap_ns: u64,
    /// Time of day at which the run starts.
    day_offset_ns: u64,
    now_ns: u64,
    next_number: u64,
    /// The rest of a burst on one card: the card, the number of purchases, the due time of the
    /// next.
    burst: Option<(u32, u64, u64)>,
}

impl Traffic {
    /// Opens the stream of a seed. `start_us` is the start of the run since the Unix epoch.
    pub(super) fn new(seed: u64, mean_gap_ns: u64, pace: PurchasePace, start_us: u64) -> Self {
        Self {
            seed,
            pace,
            arrivals: Draws::new(seed, ARRIVALS_STREAM),
            mean_gap_ns: mean_gap_ns.max(1),
            day_offset_ns: start_us % DAY_US * 1000,
            now_ns: 0,
            next_number: 0,
            burst: None,
        }
    }

    /// Plans the next purchase.
    pub(super) fn next_plan(&mut self, portfolio: &Portfolio) -> Plan {
        let arrival_ns = self.next_arrival_ns();
        let number = self.next_number;
        self.next_number += 1;
        let mut draws = Draws::new(self.seed, number + 1);
        let (payer, profile) = self.draw_payer(portfolio, &mut draws);
        self.plan(number, arrival_ns / 1000, (payer, profile), &mut draws)
    }

    /// Tells whether the next plan continues a burst: its time may lie after that of the plan
    /// which follows it.
    pub(super) fn is_in_burst(&self) -> bool {
        self.burst.is_some()
    }

    /// The time when the next purchase is due. A purchase of a burst takes an arrival's turn, so
    /// that bursts do not raise the rate that was asked for.
    fn next_arrival_ns(&mut self) -> u64 {
        let arrival_ns = self.advance();
        self.burst.map_or(arrival_ns, |(_, _, due_us)| due_us * 1000)
    }

    /// Advances to the next arrival: exponential gaps, stretched by the hour's share.
    fn advance(&mut self) -> u64 {
        let wait = u128::from(self.arrivals.exponential_q32()) * u128::from(self.mean_gap_ns);
        let mut work = (wait * 1000) >> 32;
        loop {
            let of_day_ns = (self.day_offset_ns + self.now_ns) % (DAY_US * 1000);
            let hour = usize::try_from(of_day_ns / (HOUR_US * 1000)).unwrap_or(0);
            let share = if self.pace.daily_shape { DAILY_SHAPE[hour] } else { 1000 };
            let left_ns = HOUR_US * 1000 - of_day_ns % (HOUR_US * 1000);
            if work < u128::from(left_ns * share) {
                self.now_ns += u64::try_from(work / u128::from(share)).unwrap_or(0);
                return self.now_ns;
            }
            work -= u128::from(left_ns * share);
            self.now_ns += left_ns;
        }
    }

    /// Draws who pays: an ordinary card mostly, sometimes one made for a purpose.
    fn draw_payer(&mut self, portfolio: &Portfolio, draws: &mut Draws) -> (Payer, Option<Profile>) {
        if let Some((slot, left, due_us)) = self.burst {
            let gap_us = self.pace.burst_gap_us;
            self.burst = (left > 1).then_some((slot, left - 1, due_us + gap_us));
            return (Payer::Card(slot), Some(Profile::Velocity));
        }
        if draws.per_mille(4) {
            return (Payer::Stranger(draws.below(1_000_000_000)), None);
        }
        let profiles: Vec<Profile> = portfolio.special.keys().copied().collect();
        let special = draws.per_mille(130) || portfolio.ordinary.is_empty();
        if special && let Some(profile) = draws.pick(&profiles) {
            let slot = draws.pick(&portfolio.special[profile]).copied().unwrap_or(0);
            if *profile == Profile::Velocity {
                let due_us = self.now_ns / 1000 + self.pace.burst_gap_us;
                self.burst = Some((slot, draws.between(3, 8), due_us));
            }
            return (Payer::Card(slot), Some(*profile));
        }
        (Payer::Card(draws.pick(&portfolio.ordinary).copied().unwrap_or(0)), None)
    }

    fn plan(
        &self,
        number: u64,
        due_us: u64,
        (payer, profile): (Payer, Option<Profile>),
        draws: &mut Draws,
    ) -> Plan {
        let merchant = catalogue().draw(draws);
        let opening = draw_opening(draws, payer, profile);
        let mut price = catalogue().merchant(merchant).draw_price(draws);
        if opening == Opening::Verification {
            price = Price { amount_minor: 0, billing_minor: 0 };
        }
        Plan {
            number,
            due_us,
            opening,
            payer,
            merchant,
            price,
            cash: opening == Opening::Authorization && draws.per_mille(8),
            partial: opening == Opening::Authorization && draws.per_mille(10),
            credentials: draw_credentials(draws, opening, profile),
            fate: self.draw_fate(draws, opening),
            reference: *draws
                .pick(&[
                    PurchaseReference::AuthorizationId,
                    PurchaseReference::OriginalData,
                    PurchaseReference::Rrn,
                ])
                .unwrap_or(&PurchaseReference::Rrn),
            duplicate_after_us: draws.per_mille(12).then(|| self.draw_repeat_us(draws)),
            repeat_after_us: draws.per_mille(15).then(|| self.draw_repeat_us(draws)),
            clearing: draw_clearing(draws, catalogue().merchant(merchant).is_foreign()),
            refund: self.draw_refund(draws),
        }
    }

    fn draw_fate(&self, draws: &mut Draws, opening: Opening) -> Fate {
        let pace = &self.pace;
        let settles_after_us = draws.between(pace.settle_us.0, pace.settle_us.1);
        let reversed_after_us = draws.between(pace.reverse_us.0, pace.reverse_us.1);
        let late_after_us = draws.between(pace.settle_late_us.0, pace.settle_late_us.1);
        let time_out_us = draws.between(pace.time_out_us.0, pace.time_out_us.1);
        let repeat_after_us = draws.per_mille(400).then(|| self.draw_repeat_us(draws));
        let percent = draws.between(10, 90);
        match (draws.below(1000), opening) {
            (0..15, _) => Fate::TimesOut { after_us: time_out_us, repeat_after_us },
            (_, Opening::Financial | Opening::Forced | Opening::Refund) => Fate::Abandoned,
            (15..55, Opening::Authorization) => Fate::Reversed { after_us: reversed_after_us },
            (55..80, Opening::Authorization) => Fate::PartlyReversed {
                after_us: reversed_after_us,
                keep_percent: percent,
                settles_after_us: reversed_after_us + settles_after_us,
            },
            (80..95, _) => Fate::Abandoned,
            (95..125, _) => Fate::Settles { after_us: late_after_us, late: true },
            (125..150, Opening::Authorization) => Fate::Incremented {
                after_us: reversed_after_us,
                add_percent: percent,
                settles_after_us: reversed_after_us + settles_after_us,
            },
            (150..165, Opening::Authorization) => Fate::Completed {
                after_us: reversed_after_us,
                percent: percent + 50,
                settles_after_us: reversed_after_us + settles_after_us,
            },
            _ => Fate::Settles { after_us: settles_after_us, late: false },
        }
    }

    /// Draws whether it comes back once it has settled: mostly all of it.
    fn draw_refund(&self, draws: &mut Draws) -> Option<Return> {
        let pace = &self.pace;
        let (part, more) = (draws.between(10, 90), draws.between(105, 130));
        let refund = Return {
            after_us: draws.between(pace.refund_us.0, pace.refund_us.1),
            percent: match draws.below(1000) {
                0..350 => part,
                350..450 => more,
                _ => 100,
            },
            reversed_after_us: draws
                .per_mille(150)
                .then(|| draws.between(pace.reverse_us.0, pace.reverse_us.1)),
        };
        draws.per_mille(60).then_some(refund)
    }

    fn draw_repeat_us(&self, draws: &mut Draws) -> u64 {
        draws.between(self.pace.repeat_us.0, self.pace.repeat_us.1)
    }
}

/// Draws the opening message. A card made for one code is asked in the plain way, so that
/// the code comes about.
fn draw_opening(draws: &mut Draws, payer: Payer, profile: Option<Profile>) -> Opening {
    let draw = draws.below(1000);
    if profile.is_some() || matches!(payer, Payer::Stranger(_)) {
        return Opening::Authorization;
    }
    match draw {
        0..12 => Opening::Advice,
        12..62 => Opening::Financial,
        62..67 => Opening::BalanceInquiry,
        67..77 => Opening::Verification,
        77..83 => Opening::Forced,
        83..93 => Opening::Refund,
        _ => Opening::Authorization,
    }
}

/// Draws what is presented: mostly what was held, in one piece.
fn draw_clearing(draws: &mut Draws, is_foreign: bool) -> Clearing {
    let (tip, less) = (draws.between(105, 125), draws.between(50, 99));
    let (parcels, rate) = (draws.between(2, 3), draws.between(985, 1015));
    Clearing {
        percent: match draws.below(1000) {
            0..40 => tip,
            40..60 => less,
            _ => Clearing::EXACT.percent,
        },
        parcels: if draws.per_mille(25) { u8::try_from(parcels).unwrap_or(2) } else { 1 },
        rate_per_mille: if is_foreign { rate } else { Clearing::EXACT.rate_per_mille },
    }
}

/// Draws the credentials that are carried, and now and then a wrong one. A purchase approved
/// elsewhere carries none.
fn draw_credentials(
    draws: &mut Draws,
    opening: Opening,
    profile: Option<Profile>,
) -> CardCredentials {
    let wrong = draws.below(1000);
    let (track2, with_pin) = (draws.per_mille(100), draws.per_mille(120));
    let (with_cvv, with_zip) = (draws.per_mille(500), draws.per_mille(300));
    let given = |with: bool| if with { CredentialChoice::Right } else { CredentialChoice::Absent };
    let mut credentials = CardCredentials {
        expiry: CredentialChoice::Right,
        pin: given(with_pin),
        cvv: given(with_cvv),
        zip: given(with_zip),
        track2,
    };
    if matches!(opening, Opening::Advice | Opening::Forced | Opening::Refund) {
        return CardCredentials {
            expiry: CredentialChoice::Absent,
            pin: CredentialChoice::Absent,
            cvv: CredentialChoice::Absent,
            zip: CredentialChoice::Absent,
            track2: false,
        };
    }
    match (profile, wrong) {
        (None, 0..5) => credentials.expiry = CredentialChoice::Wrong,
        (None, 5..9) => credentials.pin = CredentialChoice::Wrong,
        (None, 9..14) => credentials.cvv = CredentialChoice::Wrong,
        (None, 14..19) => credentials.zip = CredentialChoice::Wrong,
        _ => {}
    }
    credentials
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn portfolio() -> Portfolio {
        let profiles = ["ordinary", "ordinary", "suspended", "velocity", "single_use"];
        let lines: Vec<String> = profiles
            .iter()
            .enumerate()
            .map(|(at, profile)| {
                format!(
                    r#"{{"card_id":"c{at}","pan":"999999000000000{at}","expiration":"2030-01-31","profile":"{profile}"}}"#
                )
            })
            .collect();
        Portfolio::parse(&lines.join("\n")).unwrap()
    }

    fn plans(seed: u64, pace: PurchasePace, count: usize) -> Vec<Plan> {
        let portfolio = portfolio();
        let mut traffic = Traffic::new(seed, 500_000, pace, 8 * HOUR_US);
        (0..count).map(|_| traffic.next_plan(&portfolio)).collect()
    }

    #[test]
    fn the_same_seed_plans_the_same_purchases() {
        assert_eq!(plans(1, REAL_PACE, 500), plans(1, REAL_PACE, 500));
        assert_ne!(plans(1, REAL_PACE, 500), plans(2, REAL_PACE, 500));
    }

    #[test]
    fn arrivals_keep_order_and_rate() {
        let plans = plans(5, REAL_PACE, 20_000);
        assert!(plans.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
        let last_us = plans.iter().map(|plan| plan.due_us).max().unwrap();
        // 20,000 at 2,000 a second.
        assert!((9_700_000..=10_600_000).contains(&last_us), "seed 5: {last_us}");
    }

    #[test]
    fn every_kind_of_purchase_and_fate_occurs() {
        let plans = plans(9, VIRTUAL_PACE, 20_000);
        let openings: BTreeSet<Opening> = plans.iter().map(|plan| plan.opening).collect();
        assert_eq!(openings.len(), 7, "{openings:?}");
        let references: BTreeSet<PurchaseReference> =
            plans.iter().map(|plan| plan.reference).collect();
        assert_eq!(references.len(), 3);
        let has = |claim: fn(&Plan) -> bool| plans.iter().filter(|plan| claim(plan)).count();
        assert!(has(|plan| plan.cash) > 50);
        assert!(has(|plan| plan.partial) > 50);
        assert!(has(|plan| matches!(plan.payer, Payer::Stranger(_))) > 30);
        assert!(has(|plan| matches!(plan.fate, Fate::Settles { late: true, .. })) > 100);
        assert!(has(|plan| matches!(plan.fate, Fate::Reversed { .. })) > 100);
        assert!(has(|plan| matches!(plan.fate, Fate::PartlyReversed { .. })) > 100);
        assert!(has(|plan| matches!(plan.fate, Fate::Incremented { .. })) > 100);
        assert!(has(|plan| matches!(plan.fate, Fate::Completed { .. })) > 100);
        assert!(has(|plan| matches!(plan.fate, Fate::Abandoned)) > 100);
        assert!(
            has(|plan| matches!(plan.fate, Fate::TimesOut { repeat_after_us: Some(_), .. })) > 20
        );
        assert!(has(|plan| plan.duplicate_after_us.is_some()) > 100);
        assert!(has(|plan| plan.repeat_after_us.is_some()) > 100);
        assert!(has(|plan| plan.price.amount_minor != plan.price.billing_minor) > 500);
        assert!(has(|plan| plan.clearing.percent > 100) > 300);
        assert!(has(|plan| plan.clearing.percent < 100) > 100);
        assert!(has(|plan| plan.clearing.parcels > 1) > 100);
        assert!(has(|plan| plan.clearing.rate_per_mille != 1000) > 500);
        let refunds = |claim: fn(&Return) -> bool| {
            plans.iter().filter_map(|plan| plan.refund).filter(claim).count()
        };
        assert!(refunds(|refund| refund.percent == 100) > 200);
        assert!(refunds(|refund| refund.percent < 100) > 100);
        assert!(refunds(|refund| refund.percent > 100) > 50);
        assert!(refunds(|refund| refund.reversed_after_us.is_some()) > 50);
        for wrong in [
            |plan: &Plan| plan.credentials.expiry == CredentialChoice::Wrong,
            |plan: &Plan| plan.credentials.pin == CredentialChoice::Wrong,
            |plan: &Plan| plan.credentials.cvv == CredentialChoice::Wrong,
            |plan: &Plan| plan.credentials.zip == CredentialChoice::Wrong,
        ] {
            assert!(has(wrong) > 20);
        }
    }

    #[test]
    fn a_velocity_card_is_used_in_bursts() {
        let plans = plans(3, VIRTUAL_PACE, 5_000);
        let burst = plans.windows(4).any(|window| {
            window.iter().all(|plan| plan.payer == Payer::Card(3))
                && window[3].due_us - window[0].due_us <= 6 * SECOND_US
        });
        assert!(burst);
    }

    #[test]
    fn the_day_has_its_shape() {
        assert_eq!(DAILY_SHAPE.iter().sum::<u64>(), 24_000);
        let portfolio = portfolio();
        let mut traffic = Traffic::new(4, 3_000_000_000, VIRTUAL_PACE, 0);
        let mut by_hour = [0_u64; 24];
        for _ in 0..50_000 {
            let plan = traffic.next_plan(&portfolio);
            by_hour[usize::try_from(plan.due_us / HOUR_US % 24).unwrap()] += 1;
        }
        assert!(by_hour[19] > 3 * by_hour[4], "seed 4: {by_hour:?}");
    }
}
