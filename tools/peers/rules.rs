//! The rules in the scripts of peers: each by its name, so that bits and codes stand in the engine
//! alone.

use cardswitch_engine::decision::{Rule, RuleSet};

/// The rules that peers are spared: they are about more than a card and its purchases.
const LEFT_OUT: [Rule; 4] =
    [Rule::CompanyClosed, Rule::ReversedBefore, Rule::VelocityPerMinute, Rule::VelocityPerHour];

/// The bit of a rule in a set of failed ones.
pub(crate) const fn bit(rule: Rule) -> u32 {
    RuleSet::of(rule).bits()
}

/// The rules of a peer that evaluates all.
pub(crate) fn evaluated() -> impl Iterator<Item = Rule> {
    Rule::ALL.into_iter().filter(|rule| !LEFT_OUT.contains(rule))
}

/// A script with a rule's bit where it has its `{name}`, those of all credentials where it has
/// `{credentials}`, and what `code` writes of each rule, in their order, where it has `{codes}`.
pub(crate) fn fill_in(script: &str, code: impl Fn(Rule) -> String) -> String {
    let codes: String = evaluated().map(code).collect();
    let credentials = RuleSet::CREDENTIALS.bits().to_string();
    let script = script.replace("{codes}", &codes).replace("{credentials}", &credentials);
    evaluated().fold(script, |script, rule| {
        script.replace(&format!("{{{}}}", rule.name()), &bit(rule).to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{postgresql, redis};

    #[test]
    fn scripts_evaluate_every_rule_and_name_no_other() {
        for script in [postgresql::SCHEMA, redis::SCRIPT] {
            for rule in evaluated() {
                assert!(script.contains(&format!("{{{}}}", rule.name())), "{rule:?}");
            }
            let rest = fill_in(script, |_| String::new());
            let is_marker = |text: &str| {
                let name = text.split('}').next().unwrap_or_default();
                !name.is_empty()
                    && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase())
            };
            assert!(!rest.split('{').skip(1).any(is_marker), "an unknown rule");
        }
    }
}
