//! The form of each reply on the wire.

use cardswitch_engine::command::reply::BalanceReply;
use cardswitch_engine::decision::RuleSet;
use cardswitch_engine::domain::ids::RecordSeq;
use cardswitch_engine::domain::network_key::AuthorizationId;
use cardswitch_engine::domain::response_code::SubReason;
use cardswitch_iso8583::{MessageBuilder, Mti, decode};
use uuid::Uuid;

use super::*;

const USD: CurrencyCode = CurrencyCode(840);
const TRANSACTION: Option<TransactionId> = Some(TransactionId(Uuid::from_u128(7)));

fn request(mti: &str) -> MessageBuilder {
    MessageBuilder::new(Mti::parse(mti.as_bytes()).unwrap())
        .set(2, b"4111111111111111")
        .set_text(3, "000000")
        .set_number(4, 12_345)
        .set_text(7, "0305120000")
        .set_number(11, 42)
        .set_text(12, "120000")
        .set_text(13, "0305")
        .set_text(14, "2906")
        .set_text(32, "12345")
        .set_text(37, "606412000042")
        .set_text(41, "TERM0001")
        .set_text(42, "M1")
        .set_text(48, "9203123")
        .set_text(49, "840")
        .set(52, &[1; 8])
}

/// The answer as text by element, and which elements there are.
fn answered(request: &MessageBuilder, reply: &Reply) -> (String, Vec<(u8, String)>) {
    let mut frame = Vec::new();
    request.encode(&mut frame).unwrap();
    let request = Echo::of(&decode(&frame).unwrap());
    let mut out = Vec::new();
    AnswerElements::of_reply(&request, reply)
        .encode(&request, &[], (&Dialect::default(), &RepeatedFields::NONE), &mut out)
        .unwrap();
    let answer = decode(&out).unwrap();
    let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
    let fields = answer.fields().map(|(de, content)| (de, text(content))).collect();
    (answer.mti().to_string(), fields)
}

fn element(answer: &(String, Vec<(u8, String)>), de: u8) -> Option<&str> {
    let (_, text) = answer.1.iter().find(|(other, _)| *other == de)?;
    Some(text.as_str())
}

fn approval() -> AuthorizationReply {
    AuthorizationReply {
        transaction: TRANSACTION,
        response_code: ResponseCode::Approved,
        sub_reason: SubReason::None,
        failed_rules: RuleSet::EMPTY,
        approved: Minor(12_345),
        authorization_id: Some(AuthorizationId(*b"A1B2C3")),
        allowance_balance: Minor(87_655),
        currency: USD,
    }
}

fn authorization(reply: AuthorizationReply) -> Reply {
    Reply::Network(NetworkReply::Authorization(reply))
}

#[test]
fn an_approval_echoes_what_identifies_the_request_and_adds_its_own() {
    let answer = answered(&request("0100"), &authorization(approval()));
    assert_eq!(answer.0, "0110");
    let expected = [
        (2, "4111111111111111"),
        (3, "000000"),
        (4, "000000012345"),
        (7, "0305120000"),
        (11, "000042"),
        (12, "120000"),
        (13, "0305"),
        (32, "12345"),
        (37, "606412000042"),
        (38, "A1B2C3"),
        (39, "00"),
        (41, "TERM0001"),
        (42, "M1             "),
        (44, "0"),
        (49, "840"),
        (54, "0002840C000000087655"),
    ];
    let expected: Vec<_> = expected.iter().map(|(de, text)| (*de, (*text).to_owned())).collect();
    assert_eq!(answer.1, expected, "no expiry, CVV or PIN block comes back");
}

#[test]
fn a_decline_says_exactly_why() {
    let declined = |response_code, sub_reason| AuthorizationReply {
        response_code,
        sub_reason,
        approved: Minor::ZERO,
        authorization_id: None,
        allowance_balance: Minor(-5),
        ..approval()
    };
    let rows = [
        (ResponseCode::AllowanceExceeded, SubReason::None, "61", "1502"),
        (ResponseCode::Declined, SubReason::ReversedBefore, "05", "1000 reversed_before"),
        (ResponseCode::Declined, SubReason::CardTerminated, "05", "1000 card_terminated"),
    ];
    for (code, reason, de39, de44) in rows {
        let answer = answered(&request("0200"), &authorization(declined(code, reason)));
        assert_eq!(answer.0, "0210");
        assert_eq!(element(&answer, 39), Some(de39));
        assert_eq!(element(&answer, 44), Some(de44));
        assert_eq!(element(&answer, 38), None);
        assert_eq!(element(&answer, 4), Some("000000012345"));
        assert_eq!(element(&answer, 54), Some("0002840D000000000005"));
    }
    let unknown = AuthorizationReply {
        transaction: None,
        ..declined(ResponseCode::Declined, SubReason::UnknownCard)
    };
    let answer = answered(&request("0100"), &authorization(unknown));
    assert_eq!(element(&answer, 39), Some("14"));
    assert_eq!(element(&answer, 44), Some("1000 unknown_card"));
    assert_eq!(element(&answer, 54), None);
}

#[test]
fn a_partial_approval_says_what_was_approved_and_what_was_asked() {
    let partial = AuthorizationReply { approved: Minor(10_000), ..approval() };
    let answer = answered(&request("0100"), &authorization(partial));
    assert_eq!(element(&answer, 39), Some("10"));
    assert_eq!(element(&answer, 4), Some("000000010000"));
    assert_eq!(element(&answer, 54), Some("0002840C0000000876550057840C000000012345"));
    let foreign = answered(&request("0100").set_text(49, "978"), &authorization(partial));
    assert_eq!(element(&foreign, 39), Some("00"), "the amounts are in two currencies");
    assert_eq!(element(&foreign, 4), Some("000000012345"));
    let advice = answered(&request("0120"), &authorization(partial));
    assert_eq!(element(&advice, 39), Some("00"));
}

#[test]
fn advices_are_accepted_whatever_they_tell() {
    let declined = AuthorizationReply {
        response_code: ResponseCode::Declined,
        sub_reason: SubReason::DeclinedByNetwork,
        ..approval()
    };
    let answer = answered(&request("0121"), &authorization(declined));
    assert_eq!((answer.0.as_str(), element(&answer, 39)), ("0130", Some("00")));
    assert_eq!(element(&answer, 44), Some("1000 network_declined"));
}

#[test]
fn reversal_requests_learn_the_outcome_and_advices_are_accepted() {
    let rows = [
        (ReversalOutcome::Reversed, "00", "0"),
        (ReversalOutcome::NotFound, "25", "1000 not_found"),
        (ReversalOutcome::NothingHeld, "21", "1000 nothing_held"),
        (ReversalOutcome::AmountOutOfRange, "30", "1000 amount_out_of_range"),
    ];
    for (outcome, de39, de44) in rows {
        let reply = Reply::Network(NetworkReply::Reversal(ReversalReply {
            outcome,
            transaction: TRANSACTION,
            given_back: Minor(1),
            remaining: Minor(2),
            allowance_balance: Minor(3),
            currency: USD,
        }));
        let answer = answered(&request("0400"), &reply);
        assert_eq!((answer.0.as_str(), element(&answer, 39)), ("0410", Some(de39)));
        assert_eq!(element(&answer, 54), Some("0002840C000000000003"));
        assert_eq!(element(&answer, 44), Some(de44));
        let advice = answered(&request("0420"), &reply);
        assert_eq!((advice.0.as_str(), element(&advice, 39)), ("0430", Some("00")));
        assert_eq!(element(&advice, 44), Some(de44), "what the code of an advice cannot say");
    }
}

#[test]
fn an_authorization_id_comes_back_where_it_names_an_earlier_message() {
    let conflict = Reply::Network(NetworkReply::Conflict);
    let rows = [
        ("0100", None),
        ("0200", None),
        ("0120", Some("A1B2C3")),
        ("0220", Some("A1B2C3")),
        ("0400", Some("A1B2C3")),
        ("0420", Some("A1B2C3")),
    ];
    for (mti, echoed) in rows {
        let answer = answered(&request(mti).set_text(38, "A1B2C3"), &conflict);
        assert_eq!(element(&answer, 38), echoed, "{mti}");
    }
    let own = AuthorizationId(*b"ZZZZZZ");
    let reply = authorization(AuthorizationReply { authorization_id: Some(own), ..approval() });
    let answer = answered(&request("0120").set_text(38, "A1B2C3"), &reply);
    assert_eq!(element(&answer, 38), Some("ZZZZZZ"));
}

#[test]
fn presentments_learn_the_outcome() {
    let rows = [
        (PostingOutcome::Posted, "00", "0"),
        (PostingOutcome::UnknownCard, "14", "1000 unknown_card"),
        (PostingOutcome::NotFound, "25", "1000 not_found"),
        (PostingOutcome::OutOfBounds, "30", "1000 out_of_bounds"),
    ];
    for (outcome, de39, de44) in rows {
        let reply = Reply::Network(NetworkReply::Posting(PostingReply {
            outcome,
            transaction: None,
            posted: Minor(1),
            allowance_balance: Minor(3),
            currency: USD,
        }));
        let answer = answered(&request("0220"), &reply);
        assert_eq!((answer.0.as_str(), element(&answer, 39)), ("0230", Some(de39)));
        assert_eq!(element(&answer, 44), Some(de44));
    }
}

#[test]
fn a_balance_is_told_only_to_who_passes() {
    let balance = |response_code| {
        Reply::Network(NetworkReply::Balance(BalanceReply {
            response_code,
            sub_reason: SubReason::None,
            failed_rules: RuleSet::EMPTY,
            allowance_balance: Minor(500),
            currency: USD,
        }))
    };
    let answer = answered(&request("0100"), &balance(ResponseCode::Approved));
    assert_eq!(element(&answer, 39), Some("00"));
    assert_eq!(element(&answer, 54), Some("0002840C000000000500"));
    let answer = answered(&request("0100"), &balance(ResponseCode::InvalidPin));
    assert_eq!((element(&answer, 39), element(&answer, 54)), (Some("55"), None));
}

#[test]
fn what_cannot_be_decided_is_never_approved() {
    let rows = [
        (Reply::OutcomeUnknown, "96", "1000 outcome_unknown"),
        (Reply::Done(RecordSeq(1)), "96", "1000 outcome_unknown"),
        (Reply::Network(NetworkReply::Conflict), "94", "1000 conflict"),
        (
            Reply::Network(NetworkReply::FormatError(SubReason::BillingAmountMissing)),
            "30",
            "1000 no_billing_amount",
        ),
    ];
    for (reply, de39, de44) in rows {
        for mti in ["0100", "0120", "0200", "0220", "0400", "0420"] {
            let answer = answered(&request(mti), &reply);
            assert_eq!(element(&answer, 39), Some(de39), "{mti} {reply:?}");
            assert_eq!(element(&answer, 44), Some(de44), "{mti} {reply:?}");
        }
    }
    let rows = [
        (Reply::Done(RecordSeq(1)), "00", None),
        (Reply::Rejected(Rejection::ZoneKeyRepeated), "63", Some("1000 key_replayed")),
        (Reply::Rejected(Rejection::Full), "91", Some("1000 not_taken")),
        (Reply::OutcomeUnknown, "96", Some("1000 outcome_unknown")),
    ];
    for (reply, de39, de44) in rows {
        let answer = answered(&request("0800"), &reply);
        assert_eq!((element(&answer, 39), element(&answer, 44)), (Some(de39), de44), "{reply:?}");
    }
    let refused = AnswerElements::refused(Refusal::Missing(4));
    assert_eq!((refused.code, refused.detail.as_str()), (De39(*b"30"), "1000 missing_de4"));
    assert_eq!(AnswerElements::not_taken().code, De39(*b"91"));
}

#[test]
fn balances_beyond_twelve_digits_are_left_out() {
    let rich = AuthorizationReply { allowance_balance: Minor(1_000_000_000_000), ..approval() };
    let answer = answered(&request("0100"), &authorization(rich));
    assert_eq!((element(&answer, 39), element(&answer, 54)), (Some("00"), None));
}
