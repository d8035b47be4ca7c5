//! Messages that a cell has not answered yet: their peer is told when the cell is gone.
//!
//! Answers are matched by their type, DE7 and DE11, which every answer echoes as they came. One that a cell
//! never gives is forgotten once too many are kept: its peer then learns by its own patience.

use std::collections::VecDeque;

use cardswitch_engine::command::reply::Reply;
use cardswitch_iso8583::{Echo, Framing, Message, Mti, write_frame};
use cardswitch_network::limits::IN_FLIGHT_MAX;
use cardswitch_network::mapping_answer::AnswerElements;

/// The requests of one connection, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unanswered(VecDeque<(RequestName, Box<Echo>)>);

/// By what the answer to a request is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestName {
    answer: Mti,
    sent_at: Option<u64>,
    trace_number: Option<u64>,
}

impl Unanswered {
    /// Keeps a request that is about to be sent, if its like is answered at all.
    pub(crate) fn add(&mut self, request: Box<Echo>) {
        let Some(answer) = request.mti().response() else { return };
        let (sent_at, trace_number) = (request.get_number(7), request.get_number(11));
        if self.0.len() >= IN_FLIGHT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((RequestName { answer, sent_at, trace_number }, request));
    }

    /// Forgets the request to which this is the answer.
    pub(crate) fn take(&mut self, answer: &Message<'_>) {
        let name = RequestName {
            answer: answer.mti(),
            sent_at: answer.get_number(7),
            trace_number: answer.get_number(11),
        };
        if let Some(place) = self.0.iter().position(|(known, _)| *known == name) {
            self.0.remove(place);
        }
    }

    /// Takes all of them out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Box<Echo>> + '_ {
        self.0.drain(..).map(|(_, request)| request)
    }
}

/// The framed answer to a request that no cell took: nothing of it will happen. None where its like is not
/// answered. Source: DE39 91.
pub(crate) fn not_taken(request: &Echo) -> Option<Vec<u8>> {
    framed(request, &AnswerElements::not_taken())
}

/// The framed answer to a request whose cell was lost before it answered. Source: DE39 96.
pub(crate) fn outcome_unknown(request: &Echo) -> Option<Vec<u8>> {
    framed(request, &AnswerElements::of_reply(request, &Reply::OutcomeUnknown))
}

fn framed(request: &Echo, answer: &AnswerElements) -> Option<Vec<u8>> {
    request.mti().response()?;
    let mut frame = Vec::new();
    let written =
        write_frame(&mut frame, &Framing::default(), None, |out| answer.encode(request, out));
    written.ok().map(|()| frame)
}

#[cfg(test)]
mod tests {
    use cardswitch_iso8583::{MessageBuilder, decode};

    use super::*;

    fn message(mti: &[u8], trace_number: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        let message = MessageBuilder::new(Mti::parse(mti).unwrap()).set(2, b"4537110001123456");
        message.set(7, b"0115120000").set_number(11, trace_number).encode(&mut frame).unwrap();
        frame
    }

    fn echo(frame: &[u8]) -> Box<Echo> {
        Box::new(Echo::of(&decode(frame).unwrap()))
    }

    fn trace_numbers(unanswered: &mut Unanswered) -> Vec<u64> {
        unanswered.drain().map(|request| request.get_number(11).unwrap()).collect()
    }

    #[test]
    fn what_is_answered_is_forgotten() {
        let mut unanswered = Unanswered::default();
        for (mti, number) in [(b"0100", 1), (b"0400", 1), (b"0100", 2), (b"0110", 9)] {
            unanswered.add(echo(&message(mti, number)));
        }
        for (mti, number) in [(b"0110", 1), (b"0110", 7), (b"0210", 2)] {
            unanswered.take(&decode(&message(mti, number)).unwrap());
        }
        // The reversal with the same number is another message, and a response has no answer.
        assert_eq!(trace_numbers(&mut unanswered), [1, 2]);
    }

    #[test]
    fn the_oldest_is_forgotten_where_too_many_wait() {
        let mut unanswered = Unanswered::default();
        let most = IN_FLIGHT_MAX as u64;
        (0..=most).for_each(|number| unanswered.add(echo(&message(b"0100", number))));
        assert_eq!(trace_numbers(&mut unanswered), (1..=most).collect::<Vec<_>>());
    }

    #[test]
    fn answers_without_a_cell_echo_their_request() {
        let request = echo(&message(b"0100", 42));
        for (frame, code) in [(not_taken(&request), "91"), (outcome_unknown(&request), "96")] {
            let frame = frame.unwrap();
            let answer = decode(&frame[2..]).unwrap();
            assert_eq!(answer.mti(), Mti::AUTHORIZATION_RESPONSE);
            assert_eq!((answer.get_number(11), answer.get_text(39)), (Some(42), Some(code)));
        }
        assert!(not_taken(&echo(&message(b"0110", 42))).is_none());
    }
}
