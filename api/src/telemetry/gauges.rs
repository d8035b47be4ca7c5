//! Figures that other rooms add by name, such as how many deliveries wait.

use parking_lot::Mutex;

use super::exposition::Exposition;
pub use super::exposition::Kind;

/// Reads a figure; called when somebody asks, so it must be quick and never wait.
type Read = Box<dyn Fn() -> u64 + Send + Sync>;

/// What was added.
#[derive(Default)]
pub struct Gauges(Mutex<Vec<Gauge>>);

struct Gauge {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    read: Read,
}

impl Gauges {
    /// Adds a figure. A name that is there already is read anew from now on.
    pub fn add(
        &self,
        name: &'static str,
        kind: Kind,
        help: &'static str,
        read: impl Fn() -> u64 + Send + Sync + 'static,
    ) {
        let mut gauges = self.0.lock();
        gauges.retain(|gauge| gauge.name != name);
        gauges.push(Gauge { name, kind, help, read: Box::new(read) });
    }

    pub(super) fn expose(&self, text: &mut Exposition) {
        for gauge in self.0.lock().iter() {
            text.single(gauge.name, gauge.kind, gauge.help, (gauge.read)());
        }
    }
}

impl std::fmt::Debug for Gauges {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gauges = self.0.lock();
        formatter.debug_list().entries(gauges.iter().map(|gauge| gauge.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_read_when_somebody_asks_and_the_newest_reader_counts() {
        let gauges = Gauges::default();
        gauges.add("waiting", Kind::Gauge, "How many wait.", || 1);
        gauges.add("waiting", Kind::Gauge, "How many wait.", || 2);
        let mut text = Exposition::default();
        gauges.expose(&mut text);
        let text = text.finish();
        assert!(text.ends_with("waiting 2\n") && text.matches("# TYPE").count() == 1, "{text}");
    }
}
