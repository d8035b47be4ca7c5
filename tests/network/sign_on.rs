//! Network management on the ISO 8583 door: sign-on, echo, sign-off, and what each echoes.

use cardswitch_harness::{Installation, Message, Purchase, next_stan};

#[test]
fn sign_on_echo_and_sign_off_are_answered_in_turn() {
    let installation = Installation::init(60, 101);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    for code in ["001", "301", "002"] {
        let request = Message::network_management(code, next_stan());
        let answer = acquirer.ask(&request);
        assert_eq!(answer.mti, "0810");
        assert_eq!(answer.response(), "00", "DE70 {code}: {answer:?}");
        for field in [7, 11, 70] {
            assert_eq!(answer.get(field), request.get(field), "DE{field} is echoed");
        }
    }
}

#[test]
fn sign_on_is_optional_where_no_key_is_configured() {
    let installation = Installation::init(60, 102);
    let switch = installation.serve();
    let purchase = Purchase::of(installation.cards.ordinary(), 100);
    switch.acquirer().ask(&purchase.request()).expect_approved();
}
