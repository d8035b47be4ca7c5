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

/// Choices of values with their labels, of which one is chosen.
pub(super) fn choices<'a>(
    known: impl IntoIterator<Item = (&'a str, &'a str)>,
    chosen: &str,
) -> Vec<Choice> {
    let choice = |(value, label): (&str, &str)| Choice {
        value: value.to_owned(),
        label: label.to_owned(),
        is_chosen: value == chosen,
    };
    known.into_iter().map(choice).collect()
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
}
