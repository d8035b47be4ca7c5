//! The choices that a field of a form offers.

/// One of the choices; `forms::select` shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The value that the form sends.
    pub(super) value: String,
    /// The label that people read.
    pub(super) label: String,
    pub(super) is_chosen: bool,
}

/// Choices of values with their labels, of which one is chosen. Several that a query names together, as `/v1` takes
/// them, are one more choice.
pub(super) fn choices<'a>(
    known: impl IntoIterator<Item = (&'a str, &'a str)>,
    chosen: &str,
) -> Vec<Choice> {
    let known = Vec::from_iter(known);
    let label_of = |wanted: &str| {
        known.iter().find(|(value, _)| *value == wanted).map(|(_, label)| (*label).to_owned())
    };
    let together: Option<Vec<_>> = chosen.split(',').map(label_of).collect();
    let together = together.filter(|labels| labels.len() > 1);
    let together = together.map(|labels| (chosen.to_owned(), labels.join(", ")));
    let single = known.iter().map(|(value, label)| ((*value).to_owned(), (*label).to_owned()));
    let choice = |(value, label)| Choice { is_chosen: value == chosen, value, label };
    single.chain(together).map(choice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_chosen_or_none() {
        let known = [("", "None"), ("a", "Alpha"), ("b", "Beta")];
        let chosen =
            |value| choices(known, value).iter().map(|choice| choice.is_chosen).collect::<Vec<_>>();
        assert_eq!(chosen("b"), [false, false, true]);
        assert_eq!(chosen(""), [true, false, false]);
        assert_eq!(chosen("x"), [false; 3]);
    }

    /// Once, a list of two states said that it has the open ones.
    #[test]
    fn several_together_are_a_choice_of_their_own() {
        let known = [("", "Any"), ("a", "Alpha"), ("b", "Beta")];
        let chosen = |value: &str| {
            let found = choices(known, value).into_iter().find(|choice| choice.is_chosen);
            found.map(|choice| (choice.value, choice.label))
        };
        assert_eq!(chosen("b,a"), Some(("b,a".to_owned(), "Beta, Alpha".to_owned())));
        assert_eq!(chosen("a,x"), None);
    }
}
