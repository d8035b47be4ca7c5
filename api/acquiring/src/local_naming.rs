//! Names of messages in dialects that name them by local date and time (ISO 8583:1993, field 56), not by the
//! time of their transmission (DE90).
//!
//! The key by which a purchase is found is made of its STAN, this time, its acquirer and its card, see `marks`.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::{CardRef, NetworkCommand, PurchaseFacts};
use cardswitch_iso8583::Message;
use cardswitch_secrets::Secrets;

use super::mapping::{MessageAction, marks_of};
use super::marks::Marks;

/// Names the purchases of what was mapped by the local time of their message.
pub(crate) fn name_by_local_time(
    mapped: &mut MessageAction,
    message: &Message<'_>,
    secrets: &Secrets,
) {
    let MessageAction::Ask(asked) = mapped else { return };
    let Command::Network(request) = &mut asked.command else { return };
    let moment =
        [message.get_text(13), message.get_text(12)].map(Option::unwrap_or_default).concat();
    let moment = Some(moment.as_str()).filter(|moment| !moment.is_empty());
    let marks = Marks { transmission_time: moment, ..marks_of(message) };
    if let Some(facts) = facts_of(&mut request.command)
        && let CardRef::Pan(hash, _) = facts.card
    {
        let own = marks.original_key(secrets, hash);
        facts.trace.original_key = own;
        if let NetworkCommand::Increment(increment) = &mut request.command {
            increment.own_key = own;
        }
    }
}

/// The facts of the purchases that a command may make.
fn facts_of(command: &mut NetworkCommand) -> Option<&mut PurchaseFacts> {
    match command {
        NetworkCommand::Authorize(authorize) => Some(&mut authorize.facts),
        NetworkCommand::Increment(increment) => {
            increment.otherwise.as_mut().map(|authorize| &mut authorize.facts)
        }
        NetworkCommand::Advise(advise) => Some(&mut advise.facts),
        NetworkCommand::Refund(refund) => Some(&mut refund.facts),
        NetworkCommand::Present(present) => present.facts.as_mut(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_iso8583::{MessageBuilder, Mti, decode};

    use super::super::mapping::map_message;
    use super::*;

    fn mapped(message: MessageBuilder) -> NetworkCommand {
        let (mut frame, secrets) = (Vec::new(), Secrets::from_root([1; 32]));
        message.encode(&mut frame).unwrap();
        let message = decode(&frame).unwrap();
        let mut mapped = map_message(&message, &secrets);
        name_by_local_time(&mut mapped, &message, &secrets);
        let MessageAction::Ask(asked) = mapped else { panic!("{mapped:?}") };
        let Command::Network(request) = asked.command else { panic!("not of the network") };
        request.command
    }

    fn common(mti: Mti) -> MessageBuilder {
        MessageBuilder::new(mti)
            .set(2, b"1234567890123456")
            .set_text(3, "000000")
            .set_number(4, 5000)
            .set_text(7, "0102080405")
            .set_number(32, 12_345)
    }

    #[test]
    fn an_original_is_found_by_its_local_time() {
        let purchase = common(Mti::AUTHORIZATION_REQUEST).set_number(11, 42);
        let NetworkCommand::Authorize(authorize) =
            mapped(purchase.set_text(12, "030405").set_text(13, "0102"))
        else {
            panic!("no purchase");
        };
        let key = authorize.facts.trace.original_key;
        let reversal = |moment: &str| {
            let named = format!("0100000042{moment}00000012345{}", "0".repeat(11));
            let reversal = common(Mti::REVERSAL_REQUEST).set_number(11, 43).set_text(90, &named);
            let NetworkCommand::Reverse(reverse) = mapped(reversal) else { panic!("no reversal") };
            reverse.original.original_key
        };
        assert_eq!(reversal("0102030405"), key);
        assert_ne!(reversal("0102080405"), key, "that of its transmission names nothing");
        assert_eq!(authorize.facts.trace.transmission_time.to_string(), "0102080405");
    }
}
