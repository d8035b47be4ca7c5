//! Messages that a cell has not answered yet: their peer is told when the cell is gone.
//!
//! Answers are matched by their type, DE7 and DE11, which every answer echoes as they came. Of several requests with
//! these, terminals of one peer for instance, the other echoed elements choose. A message that a cell never answers is
//! forgotten once too many are kept. Its peer then learns of it by its own timeout.

use std::collections::VecDeque;

use cardswitch_acquiring::limits::IN_FLIGHT_MAX;
use cardswitch_acquiring::mapping_answer::AnswerElements;
use cardswitch_engine::command::reply::Reply;
use cardswitch_iso8583::{Dialect, Echo, Message, Mti, RepeatedFields, Tpdu, write_frame};

/// The parts of a request that the router's own answer to it needs.
#[derive(Debug)]
pub(crate) struct RoutedRequest {
    echo: Echo,
    /// The header before it.
    tpdu: Option<Tpdu>,
    /// The fields that the dialect repeats as they came.
    repeated: RepeatedFields,
}

/// The requests of one connection, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests(VecDeque<(RequestName, Box<RoutedRequest>)>);

/// The elements that tell requests of one name apart. Source: identity of a message.
const ECHOED_OF_NAMESAKES: [u8; 6] = [2, 3, 4, 32, 37, 41];
/// DE39 of an answer whose DE4 is not its request's.
const APPROVED_IN_PART: &[u8] = b"10";

/// The values by which the answer to a request is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestName {
    answer: Mti,
    sent_at: Option<u64>,
    trace_number: Option<u64>,
}

impl PendingRequests {
    /// Keeps a request that is about to be sent, if its like is answered at all.
    pub(crate) fn add(&mut self, request: Box<RoutedRequest>) {
        let echo = &request.echo;
        let Some(answer) = echo.mti.response() else { return };
        let (sent_at, trace_number) = (echo.get_number(7), echo.get_number(11));
        if self.0.len() >= IN_FLIGHT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((RequestName { answer, sent_at, trace_number }, request));
    }

    /// Forgets the request to which this is the answer: of several with its name the one that it echoes, else the oldest.
    pub(crate) fn take(&mut self, answer: &Message<'_>) {
        let name = RequestName {
            answer: answer.mti(),
            sent_at: answer.get_number(7),
            trace_number: answer.get_number(11),
        };
        let mut namesakes = self.0.iter().enumerate().filter(|(_, (known, _))| *known == name);
        let echoed = namesakes.clone().find(|(_, (_, request))| request.is_echoed_by(answer));
        if let Some((place, _)) = echoed.or_else(|| namesakes.next()) {
            self.0.remove(place);
        }
    }

    /// Takes all of them out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Box<RoutedRequest>> + '_ {
        self.0.drain(..).map(|(_, request)| request)
    }
}

impl RoutedRequest {
    /// A request as it was read, with the header before it and the fields that its dialect repeats.
    pub(crate) fn new(message: &Message<'_>, tpdu: Option<Tpdu>, repeated: RepeatedFields) -> Self {
        Self { echo: Echo::of(message), tpdu, repeated }
    }

    fn is_echoed_by(&self, answer: &Message<'_>) -> bool {
        let is_in_part = answer.get(39) == Some(APPROVED_IN_PART);
        let mut compared = ECHOED_OF_NAMESAKES.iter().filter(|de| **de != 4 || !is_in_part);
        compared.all(|de| self.echo.get(*de) == answer.get(*de))
    }

    /// The framed answer where no cell took it: nothing of it will happen. None where its like is not answered.
    /// Source: DE39 91.
    pub(crate) fn not_taken(&self, dialect: &Dialect) -> Option<Vec<u8>> {
        self.framed(&AnswerElements::not_taken(), dialect)
    }

    /// The framed answer where its cell was lost before it answered. Source: DE39 96.
    pub(crate) fn outcome_unknown(&self, dialect: &Dialect) -> Option<Vec<u8>> {
        self.framed(&AnswerElements::of_reply(&self.echo, &Reply::OutcomeUnknown), dialect)
    }

    fn framed(&self, answer: &AnswerElements, dialect: &Dialect) -> Option<Vec<u8>> {
        self.echo.mti.response()?;
        let mut frame = Vec::new();
        let tpdu = self.tpdu.map(Tpdu::swapped);
        let written = answer.frame(|answer| {
            write_frame(&mut frame, &dialect.framing, tpdu, |out| {
                answer.encode(&self.echo, &[], (dialect, &self.repeated), out)
            })
        });
        written.ok().map(|()| frame)
    }
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

    fn request(frame: &[u8]) -> Box<RoutedRequest> {
        Box::new(RoutedRequest::new(&decode(frame).unwrap(), None, RepeatedFields::NONE))
    }

    fn trace_numbers(unanswered: &mut PendingRequests) -> Vec<u64> {
        unanswered.drain().map(|request| request.echo.get_number(11).unwrap()).collect()
    }

    #[test]
    fn what_is_answered_is_forgotten() {
        let mut unanswered = PendingRequests::default();
        for (mti, number) in [(b"0100", 1), (b"0400", 1), (b"0100", 2), (b"0110", 9)] {
            unanswered.add(request(&message(mti, number)));
        }
        for (mti, number) in [(b"0110", 1), (b"0110", 7), (b"0210", 2)] {
            unanswered.take(&decode(&message(mti, number)).unwrap());
        }
        // The reversal with the same number is another message, and a response has no answer.
        assert_eq!(trace_numbers(&mut unanswered), [1, 2]);
    }

    /// Two terminals of one peer had equal numbers: the answer to one was taken for the other's, which then got none
    /// when the cell was lost.
    #[test]
    fn of_requests_with_one_name_the_echoed_one_is_forgotten() {
        let encoded = |message: MessageBuilder| {
            let mut frame = Vec::new();
            message.encode(&mut frame).unwrap();
            frame
        };
        let purchase = || {
            let purchase = MessageBuilder::from_message(&decode(&message(b"0100", 1)).unwrap())
                .set(3, b"000000")
                .set_number(4, 500);
            purchase.set(41, b"TERM0001")
        };
        for (de, other, code, amount) in [
            (2, &b"4537110001654321"[..], b"00", 500),
            (3, b"200000", b"00", 500),
            (4, b"000000000700", b"00", 700),
            (32, b"400001", b"00", 500),
            (37, b"RRN000000001", b"00", 500),
            (41, b"TERM0002", b"00", 500),
            (41, b"TERM0002", b"10", 300),
        ] {
            let mut unanswered = PendingRequests::default();
            unanswered.add(request(&encoded(purchase())));
            unanswered.add(request(&encoded(purchase().set(de, other))));
            let answer = purchase().set(de, other).with_mti(Mti::AUTHORIZATION_RESPONSE);
            let answer = encoded(answer.set_number(4, amount).set(39, code));
            unanswered.take(&decode(&answer).unwrap());
            let [left] = &unanswered.drain().collect::<Vec<_>>()[..] else { panic!("DE{de}") };
            assert_ne!(left.echo.get(de), Some(other), "DE{de}");
        }
    }

    #[test]
    fn the_oldest_is_forgotten_where_too_many_wait() {
        let mut unanswered = PendingRequests::default();
        let most = IN_FLIGHT_MAX as u64;
        (0..=most).for_each(|number| unanswered.add(request(&message(b"0100", number))));
        assert_eq!(trace_numbers(&mut unanswered), (1..=most).collect::<Vec<_>>());
    }

    #[test]
    fn answers_without_a_cell_echo_their_request() {
        let (asked, dialect) = (request(&message(b"0100", 42)), Dialect::default());
        for (frame, code) in
            [(asked.not_taken(&dialect), "91"), (asked.outcome_unknown(&dialect), "96")]
        {
            let frame = frame.unwrap();
            let answer = decode(&frame[2..]).unwrap();
            assert_eq!(answer.mti(), Mti::AUTHORIZATION_RESPONSE);
            assert_eq!((answer.get_number(11), answer.get_text(39)), (Some(42), Some(code)));
        }
        assert!(request(&message(b"0110", 42)).not_taken(&dialect).is_none());
    }
}
