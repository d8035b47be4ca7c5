//! Both doors against each other: a purchase of one is known at the other.

use cardswitch_acquiring::mapping::{MessageAction, map_message};
use cardswitch_acquiring::mapping_answer::AnswerElements;
use cardswitch_iso8583::{Echo, MessageBuilder, Mti, OriginalData, decode};
use serde_json::json;

use super::world::{Card, DoorBench, purchase};

#[tokio::test]
async fn what_came_by_one_door_is_reversed_by_the_other() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    let balance = async |bench: &DoorBench| {
        let inquiry =
            bench.ask("Token token", "GET", &format!("/v1/cards/{}", card.id), "").await.1;
        inquiry["allowance"]["balance"].clone()
    };

    // By reference and by original data, from ISO 8583 to HTTP.
    assert_eq!(ask_iso(&bench, &iso("0100", &card, 1)).await, "00");
    assert_eq!(ask_iso(&bench, &iso("0100", &card, 2)).await, "00");
    assert_eq!(balance(&bench).await, 80.0);
    let by_rrn = json!({"card_id": card.id, "rrn": "606412000001", "acquirer": "12345"});
    let by_stan = json!({"card_number": card.number, "original_stan": 2, "acquirer": 12345,
        "original_transmission_time": "0304200000"});
    for body in [by_rrn, by_stan] {
        assert_eq!(bench.post("reversals", body.clone()).await["outcome"], "reversed", "{body}");
    }
    assert_eq!(balance(&bench).await, 100.0);

    // By reference, by original data and by authorization id, from HTTP to ISO 8583.
    let original = OriginalData {
        mti: Mti::AUTHORIZATION_REQUEST,
        stan: 4,
        transmitted: *b"0000000000",
        acquirer: 12_345,
        forwarder: 0,
    };
    for way in 3..=5_u64 {
        let mut body = purchase(&card, json!(10));
        body["stan"] = json!(way);
        body["rrn"] = json!(format!("606412{way:06}"));
        let approved = bench.post("authorizations", body).await;
        assert_eq!(balance(&bench).await, 90.0);
        let reversal = iso("0400", &card, way);
        let reversal = match way {
            3 => reversal,
            4 => reversal.without(37).set(90, &original.to_content().unwrap()),
            _ => {
                let id = approved["authorization_id"].as_str().unwrap();
                reversal.without(37).set_text(38, id)
            }
        };
        assert_eq!(ask_iso(&bench, &reversal).await, "00", "{way}");
        assert_eq!(balance(&bench).await, 100.0);
    }
}

/// Sends a message through the mapping of the ISO 8583 door; returns DE39.
async fn ask_iso(bench: &DoorBench, message: &MessageBuilder) -> String {
    let mut frame = Vec::new();
    message.encode(&mut frame).unwrap();
    let message = decode(&frame).unwrap();
    let MessageAction::Ask(command) = map_message(&message, &bench.state.secrets) else {
        panic!("nothing is asked by {message:?}");
    };
    let reply = bench.state.switch.ask(command).await.unwrap();
    let elements = AnswerElements::of_reply(&Echo::of(&message), &reply);
    String::from_utf8(elements.code.0.to_vec()).unwrap()
}

fn iso(mti: &str, card: &Card, stan: u64) -> MessageBuilder {
    MessageBuilder::new(Mti::parse(mti.as_bytes()).unwrap())
        .set(2, card.number.as_bytes())
        .set_text(3, "000000")
        .set_number(4, 1_000)
        .set_text(7, "0304200000")
        .set_number(11, stan)
        .set_text(18, "5812")
        .set_text(32, "12345")
        .set_text(37, &format!("606412{stan:06}"))
}
