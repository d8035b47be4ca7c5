//! The distance between the clocks of nodes, and its effect on leading.
//!
//! A node whose clock most nodes contradict with one time neither takes the lead nor keeps it. If nodes contradict
//! each other and most have no time in common, it is unknown which is right: the leader goes on, and no other takes
//! the lead. Nor does a node that has just come, before it knows.

use std::collections::BTreeMap;
use std::time::Duration;

use cardswitch_engine::clock::Stopwatch;

/// How far two clocks may be apart. Units: microseconds.
const APART_MAX: i64 = 500_000;
/// For how long it counts what a node's clock was: it may not be there any more.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// The clock of a node compared with those of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockStanding {
    /// The node has just come, and knows too few other clocks.
    Unchecked,
    /// Most nodes agree with it, or no other node is known.
    Level,
    /// Most other nodes contradict it, but no more of them agree with each other than with it, itself among these.
    Doubtful(String),
    /// Most nodes contradict it, and agree with each other.
    Apart(String),
}

impl ClockStanding {
    /// The fault and its remedy; none where there is no fault.
    pub fn words(&self) -> Option<&str> {
        match self {
            Self::Unchecked | Self::Level => None,
            Self::Doubtful(words) | Self::Apart(words) => Some(words),
        }
    }
}

/// The clocks of other nodes as they were seen last.
#[derive(Debug, Default)]
pub(crate) struct Clocks(BTreeMap<String, (i64, Stopwatch)>);

impl Clocks {
    /// Notes that the clock of a node is ahead of this one's. Units: microseconds.
    pub(crate) fn note(&mut self, node: String, ahead_us: i64) {
        self.0.insert(node, (ahead_us, Stopwatch::start()));
    }

    /// How far each is ahead. Units: microseconds.
    pub(crate) fn ahead(&self) -> Vec<(String, i64)> {
        let known = self.0.iter().filter(|(_, (_, seen))| seen.elapsed() <= REMEMBERED_FOR);
        known.map(|(name, (ahead, _))| (name.clone(), *ahead)).collect()
    }
}

/// How the clock of a node stands to clocks that are ahead of it by so much.
pub(crate) fn standing_of(ahead: &[(String, i64)]) -> ClockStanding {
    let (apart, level): (Vec<_>, Vec<_>) =
        ahead.iter().partition(|(_, ahead)| !(-APART_MAX..=APART_MAX).contains(ahead));
    if apart.is_empty() || apart.len() <= level.len() {
        return ClockStanding::Level;
    }
    let differences: Vec<_> = apart
        .iter()
        .map(|(name, ahead)| {
            let way = if *ahead > 0 { "behind" } else { "ahead of" };
            format!("{} ms {way} `{name}`", ahead.unsigned_abs() / 1_000)
        })
        .collect();
    let words = format!(
        "the clock of this node is {}: set the clocks of all nodes by NTP; until then it does not \
         take the lead",
        differences.join(" and ")
    );
    let agreeing = apart.iter().map(|(_, least)| {
        let times = apart.iter().map(|(_, ahead)| ahead.saturating_sub(*least));
        times.filter(|apart| (0..=APART_MAX).contains(apart)).count()
    });
    if agreeing.max().is_some_and(|agreeing| agreeing > level.len() + 1) {
        ClockStanding::Apart(words)
    } else {
        ClockStanding::Doubtful(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_most_contradict_is_apart() {
        let rows: [(&[i64], &str); 12] = [
            (&[], "level"),
            (&[3, -499_999], "level"),
            (&[500_000], "level"),
            (&[500_001], "doubtful"),
            (&[-2_000_000, 10], "level"),
            (&[-2_000_000, -2_000_100], "apart"),
            (&[900_000, -900_000], "doubtful"),
            (&[900_000, 1_800_000], "doubtful"),
            (&[900_000, 1_400_000], "apart"),
            (&[900_000, 910_000, -5_000_000, 905_000], "apart"),
            (&[900_000, 0, 900_000, 0], "level"),
            (&[900_000, 900_000, 0], "doubtful"),
        ];
        for (ahead, expected) in rows {
            let ahead: Vec<_> = ahead.iter().map(|us| ("node-2".to_owned(), *us)).collect();
            let standing = standing_of(&ahead);
            let is = match &standing {
                ClockStanding::Unchecked => "unchecked",
                ClockStanding::Level => "level",
                ClockStanding::Doubtful(_) => "doubtful",
                ClockStanding::Apart(_) => "apart",
            };
            assert_eq!(is, expected, "{ahead:?}");
        }
        let words = standing_of(&[("b".into(), -2_000_000), ("c".into(), 700_000)]);
        let words = words.words().unwrap();
        assert!(words.contains("2000 ms ahead of `b` and 700 ms behind `c`"), "{words}");
    }
}
