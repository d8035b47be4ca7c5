//! Figures that other rooms add by name, such as how many deliveries wait.

use parking_lot::Mutex;

use super::exposition::Exposition;
pub use super::exposition::Kind;

/// Reads a figure; called when somebody asks, so it must be quick and never wait.
type Read = Box<dyn Fn() -> u64 + Send + Sync>;

/// As `Read`, of several things of one kind, by their names.
type GroupRead = Box<dyn Fn() -> Vec<(String, u64)> + Send + Sync>;

/// The added figures.
#[derive(Default)]
pub struct Gauges(Mutex<Vec<Gauge>>);

struct Gauge {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    figures: Figures,
}

enum Figures {
    One(Read),
    /// The label that names each.
    Each(&'static str, GroupRead),
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
        self.put(Gauge { name, kind, help, figures: Figures::One(Box::new(read)) });
    }

    /// Adds a gauge with a figure for each of several things, which `label` names.
    pub fn add_each(
        &self,
        (name, label): (&'static str, &'static str),
        help: &'static str,
        read: impl Fn() -> Vec<(String, u64)> + Send + Sync + 'static,
    ) {
        let figures = Figures::Each(label, Box::new(read));
        self.put(Gauge { name, kind: Kind::Gauge, help, figures });
    }

    fn put(&self, gauge: Gauge) {
        let mut gauges = self.0.lock();
        gauges.retain(|known| known.name != gauge.name);
        gauges.push(gauge);
    }

    pub(super) fn expose(&self, text: &mut Exposition) {
        for Gauge { name, kind, help, figures } in self.0.lock().iter() {
            match figures {
                Figures::One(read) => text.single(name, *kind, help, read()),
                Figures::Each(label, read) => {
                    text.family(name, *kind, help);
                    for (of, figure) in read() {
                        text.figure(name, &[(label, &of)], figure);
                    }
                }
            }
        }
    }
}

cardswitch_engine::opaque!(Gauges);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_read_when_somebody_asks_and_the_newest_reader_counts() {
        let gauges = Gauges::default();
        gauges.add("waiting", Kind::Gauge, "How many wait.", || 1);
        gauges.add("waiting", Kind::Gauge, "How many wait.", || 2);
        let behind = || vec![("a".to_owned(), 3), ("b".to_owned(), 4)];
        gauges.add_each(("behind", "node"), "How far each is behind.", behind);
        let mut text = Exposition::default();
        gauges.expose(&mut text);
        let text = text.finish();
        assert!(text.contains("waiting 2\n") && text.matches("# TYPE").count() == 2, "{text}");
        assert!(text.ends_with("behind{node=\"a\"} 3\nbehind{node=\"b\"} 4\n"), "{text}");
    }
}
