//! Credentials of the cardholder over several messages.

use cardswitch_engine::command::network::{Authorize, NetworkCommand};
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::decision::{Rule, RuleSet};
use cardswitch_engine::domain::credential::{PinVerifier, PresentedCredentials, PresentedValue};

use crate::samples::{facts, network, pan};
use crate::story::{Story, purchase};

/// Behind three wrong PINs none is compared. Each counted as a wrong credential, and the fifth locked the others.
#[test]
fn a_pin_that_is_not_compared_is_no_wrong_credential() {
    let mut story = Story::begin();
    let pin = Some(PresentedValue::new(PinVerifier(1)));
    let credentials = PresentedCredentials { pin, ..PresentedCredentials::NONE };
    for mark in 1..10 {
        let command = Authorize { credentials, ..purchase(facts(pan(1), 100, mark)) };
        match story.run(&network(NetworkCommand::Authorize(command))) {
            Reply::Network(NetworkReply::Authorization(reply)) => {
                assert_eq!(reply.failed_rules, RuleSet::of(Rule::PinWrong), "{mark}");
            }
            other => panic!("{other:?}"),
        }
    }
}
