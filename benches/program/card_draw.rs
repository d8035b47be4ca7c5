//! How a stream picks the card of its next purchase: each alike, or few of them often.

use super::Random;

/// Ranks are spread over the cards by steps of this prime, so that popular cards are no neighbours.
const STEP: u128 = 2_654_435_761;

/// A draw from the cards of a program.
#[derive(Clone, Debug)]
pub struct CardDraw {
    cards: u64,
    skew: Option<Zipf>,
}

impl CardDraw {
    /// Each of so many cards is as likely as any other.
    pub const fn uniform(cards: u64) -> Self {
        Self { cards, skew: None }
    }

    /// The card of rank `k` is drawn in proportion to `1 / k^theta`, with `theta` between 0 and 1.
    /// Cost: O(cards), once.
    pub fn zipf(cards: u64, theta: f64) -> Self {
        Self { cards, skew: Some(Zipf::new(cards, theta)) }
    }

    /// The next card.
    pub fn next_card(&self, random: &mut Random) -> u64 {
        let Some(zipf) = &self.skew else { return random.below(self.cards) };
        let rank = zipf.rank(random).min(self.cards - 1);
        u64::try_from(u128::from(rank) * STEP % u128::from(self.cards)).unwrap_or(rank)
    }
}

/// The approximation of Gray et al., "Quickly generating billion-record synthetic databases",
/// which YCSB uses, too.
#[derive(Clone, Debug)]
struct Zipf {
    count: f64,
    theta: f64,
    /// The sum of all weights.
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(count: u64, theta: f64) -> Self {
        assert!(theta > 0.0 && theta < 1.0, "a skew is between 0 and 1, not {theta}");
        let zeta_of = |count| (1..=count).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
        let (zeta, of_two) = (zeta_of(count), zeta_of(count.min(2)));
        let count = count as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - theta)) / (1.0 - of_two / zeta);
        Self { count, theta, zeta, eta }
    }

    /// A rank from 0, the most popular.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank is at least 0, and rounded down"
    )]
    fn rank(&self, random: &mut Random) -> u64 {
        let share = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let weight = share * self.zeta;
        if weight < 1.0 {
            return 0;
        }
        if weight < 1.0 + 0.5_f64.powf(self.theta) {
            return 1;
        }
        let within = self.eta.mul_add(share, 1.0 - self.eta);
        (self.count * within.powf(1.0 / (1.0 - self.theta))) as u64
    }
}
