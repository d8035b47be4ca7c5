//! A small switch with simple rules: it approves what the allowance has, declines 1502 otherwise, and can lose
//! answers or lie.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use cardswitch_iso8583::additional_amounts::Sign;
use cardswitch_iso8583::{
    AdditionalAmount, Frame, Framing, Message, MessageBuilder, OriginalData, PrivateUse, decode,
    next_frame, replacement_amounts::parse_replacement_amount, write_frame,
};
use parking_lot::Mutex;

/// The faults of the switch, each so many messages.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) silent_every: Option<u64>,
    pub(super) unknown_every: Option<u64>,
    pub(super) not_taken_every: Option<u64>,
    /// Says so of what it has decided.
    pub(super) denied_every: Option<u64>,
    /// Takes one cent too much, so many holds.
    pub(super) wrong_every: Option<u64>,
    /// Approves three times the amount, "in part", so many holds that nobody offered to take in part.
    pub(super) more_in_part_every: Option<u64>,
    /// Answers duplicates with a decline.
    pub(super) forgets_duplicates: bool,
    /// Never answers duplicates.
    pub(super) ignores_duplicates: bool,
}

#[derive(Default)]
struct Hold {
    pan: String,
    rrn: Option<u64>,
    stan: u64,
    authorization_id: String,
    held: i64,
    posted: i64,
    is_declined: bool,
    /// Money back, which is not the allowance's.
    is_refund: bool,
    /// The part of it that made room in the allowance: as much as its purchase had left.
    room: i64,
    refunded: i64,
}

#[derive(Default)]
pub(super) struct SmallSwitch {
    faults: Faults,
    spent: HashMap<String, i64>,
    holds: Vec<Hold>,
    answered: HashMap<Vec<u8>, Verdict>,
    /// Purchases whose reversal came before them: card, and STAN or reference number as the reversal names it.
    reversed_before: HashSet<(String, u64)>,
    messages: u64,
    pub(super) received: Vec<u8>,
}

#[derive(Clone, Default)]
struct Verdict {
    response: &'static str,
    code: &'static str,
    authorization_id: Option<String>,
    balance: Option<i64>,
    amount: Option<i64>,
}

const ALLOWANCE: i64 = 400_000;

impl SmallSwitch {
    pub(super) fn start(faults: Faults) -> (SocketAddr, Arc<Mutex<Self>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let switch = Arc::new(Mutex::new(Self { faults, ..Self::default() }));
        let shared = Arc::clone(&switch);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        (address, switch)
    }

    /// The answer to a message, or silence.
    fn answer(&mut self, message: &Message<'_>, bytes: &[u8]) -> Option<Verdict> {
        if message.mti().class() == 8 {
            return Some(Verdict { response: "00", ..Verdict::default() });
        }
        let is_inquiry = message.get(3) == Some(b"300000");
        if is_inquiry {
            return Some(self.inquire(&pan_of(message)));
        }
        self.received.extend_from_slice(bytes);
        self.messages += 1;
        let hits =
            |every: Option<u64>| every.is_some_and(|every| self.messages.is_multiple_of(every));
        let (silent, unknown) = (hits(self.faults.silent_every), hits(self.faults.unknown_every));
        let not_taken = Verdict { response: "91", code: "1000 not_taken", ..Verdict::default() };
        let is_not_taken = hits(self.faults.not_taken_every);
        let is_denied = hits(self.faults.denied_every);
        let key = duplicate_key(message);
        let known = self.answered.get(&key).filter(|_| !self.faults.forgets_duplicates).cloned();
        if known.is_some() && self.faults.ignores_duplicates {
            return None;
        }
        let verdict = match known {
            Some(verdict) => verdict,
            None if unknown => Verdict { response: "96", ..Verdict::default() },
            None if is_not_taken => not_taken.clone(),
            None => {
                let verdict = self.decide(message);
                self.answered.insert(key, verdict.clone());
                verdict
            }
        };
        let verdict = if is_denied { not_taken } else { verdict };
        (!silent).then_some(verdict)
    }

    fn inquire(&self, pan: &str) -> Verdict {
        let spent = self.spent.get(pan).copied().unwrap_or(0);
        Verdict { response: "00", balance: Some(ALLOWANCE - spent), ..Verdict::default() }
    }

    fn decide(&mut self, message: &Message<'_>) -> Verdict {
        match message.mti().without_repeat().as_str() {
            "0100" if message.has(38) => self.add(message),
            "0120" if self.find(message).is_some() => self.complete(message),
            "0100" | "0120" | "0200" => self.hold(message),
            "0220" if message.get(3) == Some(b"200000") => self.post(message, true),
            "0220" if self.find(message).is_none() => self.post(message, false),
            "0220" => self.present(message),
            _ => self.reverse(message),
        }
    }

    fn hold(&mut self, message: &Message<'_>) -> Verdict {
        let (pan, advice) = (pan_of(message), message.mti().is_advice());
        let wrong = self.faults.wrong_every.is_some_and(|n| self.messages.is_multiple_of(n));
        let amount = amount_of(message) + i64::from(wrong);
        let (rrn, stan) = (message.get_number(37), message.get_number(11).unwrap());
        let spent = self.spent.entry(pan.clone()).or_default();
        let names = [Some(stan), rrn].into_iter().flatten();
        let is_gone =
            names.into_iter().any(|name| self.reversed_before.contains(&(pan.clone(), name)));
        if is_gone || (*spent + amount > ALLOWANCE && !advice) {
            self.holds.push(Hold { pan, rrn, stan, is_declined: true, ..Hold::default() });
            return Verdict { response: "61", code: "1502 allowance", ..Verdict::default() };
        }
        *spent += amount;
        let authorization_id = format!("{:06}", self.holds.len());
        let posts = message.mti().as_str() == "0200";
        self.holds.push(Hold {
            pan,
            rrn,
            stan,
            is_declined: false,
            authorization_id: authorization_id.clone(),
            held: if posts { 0 } else { amount },
            posted: if posts { amount } else { 0 },
            ..Hold::default()
        });
        let authorization_id = Some(authorization_id);
        if self.faults.more_in_part_every.is_some_and(|n| self.messages.is_multiple_of(n)) {
            let amount = Some(3 * amount);
            return Verdict { response: "10", authorization_id, amount, ..Verdict::default() };
        }
        Verdict { response: "00", code: "0", authorization_id, ..Verdict::default() }
    }

    /// Posts what was never authorized: by force, or back.
    fn post(&mut self, message: &Message<'_>, is_refund: bool) -> Verdict {
        let (posted, pan) = (amount_of(message), pan_of(message));
        let purchase = if is_refund { self.find(message) } else { None };
        let room = purchase.map_or(0, |purchase| {
            let room = posted.min(purchase.posted - purchase.refunded);
            purchase.refunded += room;
            room
        });
        *self.spent.entry(pan.clone()).or_default() -= room;
        if !is_refund {
            *self.spent.entry(pan.clone()).or_default() += posted;
        }
        let (rrn, stan) = (message.get_number(37), message.get_number(11).unwrap());
        self.holds.push(Hold { pan, rrn, stan, posted, is_refund, room, ..Hold::default() });
        Verdict { response: "00", ..Verdict::default() }
    }

    fn complete(&mut self, message: &Message<'_>) -> Verdict {
        let (amount, pan) = (amount_of(message), pan_of(message));
        let hold = self.find(message).expect("only what was approved is completed");
        let before = std::mem::replace(&mut hold.held, amount);
        *self.spent.get_mut(&pan).unwrap() += amount - before;
        Verdict { response: "00", ..Verdict::default() }
    }

    fn add(&mut self, message: &Message<'_>) -> Verdict {
        let (amount, pan) = (amount_of(message), pan_of(message));
        if self.spent[&pan] + amount > ALLOWANCE {
            return Verdict { response: "61", code: "1502 allowance", ..Verdict::default() };
        }
        let hold = self.find(message).expect("only what was approved is added to");
        hold.held += amount;
        let authorization_id = Some(hold.authorization_id.clone());
        *self.spent.get_mut(&pan).unwrap() += amount;
        Verdict { response: "00", code: "0", authorization_id, ..Verdict::default() }
    }

    fn find(&mut self, message: &Message<'_>) -> Option<&mut Hold> {
        let pan = pan_of(message);
        let authorization_id = message.get_text(38).map(str::to_owned);
        let original = message.get(90).and_then(OriginalData::parse);
        let rrn = message.get_number(37);
        self.holds.iter_mut().filter(|hold| hold.pan == pan && !hold.is_declined).find(|hold| {
            if let Some(authorization_id) = &authorization_id {
                return hold.authorization_id == *authorization_id;
            }
            match original {
                Some(original) => hold.stan == u64::from(original.stan),
                None => hold.rrn == rrn,
            }
        })
    }

    fn present(&mut self, message: &Message<'_>) -> Verdict {
        let (amount, pan) = (amount_of(message), pan_of(message));
        let number = message.get(48).and_then(PrivateUse::parse).and_then(|p| p.presentment());
        let is_final = number.is_none_or(|number| number.number == number.count);
        let hold = self.find(message).expect("only what was approved is presented");
        let released = if is_final { hold.held } else { hold.held.min(amount) };
        (hold.held, hold.posted) = (hold.held - released, hold.posted + amount);
        *self.spent.get_mut(&pan).unwrap() += amount - released;
        Verdict { response: "00", ..Verdict::default() }
    }

    fn reverse(&mut self, message: &Message<'_>) -> Verdict {
        let is_advice = message.mti().is_advice();
        let (whole, pan) = (message.get_number(4).unwrap(), pan_of(message));
        let Some(hold) = self.find(message) else {
            let original = message.get(90).and_then(OriginalData::parse);
            let stan = original.map(|original| u64::from(original.stan));
            self.reversed_before.extend(stan.or(message.get_number(37)).map(|name| (pan, name)));
            let response = if is_advice { "00" } else { "25" };
            return Verdict { response, ..Verdict::default() };
        };
        let before = hold.held + hold.posted;
        let keep = message.get(95).and_then(parse_replacement_amount);
        let held = hold.held.unsigned_abs();
        let left = keep.map_or(0, |keep| (held * keep).div_ceil(whole).cast_signed());
        (hold.held, hold.posted) = (left, 0);
        let room = std::mem::take(&mut hold.room);
        if hold.is_refund {
            *self.spent.get_mut(&pan).unwrap() += room;
        } else {
            *self.spent.get_mut(&pan).unwrap() -= before - left;
        }
        Verdict { response: "00", ..Verdict::default() }
    }
}

impl Hold {
    /// A transaction as the HTTP door renders it.
    fn to_json(&self) -> serde_json::Value {
        let state = match self {
            Self { is_declined: true, .. } => "declined",
            Self { posted: 1.., .. } => "completed",
            Self { held: 1.., .. } => "pending",
            _ => "canceled",
        };
        let decimal = |minor: i64| {
            serde_json::from_str::<serde_json::Number>(&format!(
                "{}.{:02}",
                minor / 100,
                minor % 100
            ))
        };
        serde_json::json!({
            "transaction_id": self.authorization_id,
            "rrn": format!("{:012}", self.rrn.unwrap()),
            "state": state,
            "held": decimal(self.held).unwrap(),
            "posted": decimal(self.posted).unwrap(),
            "response_code": if self.is_declined { Some(1502) } else { None },
        })
    }
}

/// Serves the transactions of a card, two a page at any limit.
pub(super) fn serve_http(switch: Arc<Mutex<SmallSwitch>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        // The first connection asks for the clock, as a look at key and address.
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0, "it asks");
        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buffer, mut chunk) = (Vec::new(), [0; 4096]);
        while let Ok(len @ 1..) = stream.read(&mut chunk) {
            buffer.extend_from_slice(&chunk[..len]);
            if buffer.ends_with(b"\r\n\r\n") {
                let request = String::from_utf8(std::mem::take(&mut buffer)).unwrap();
                let body = page(&switch.lock(), &request).to_string();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all((head + &body).as_bytes()).unwrap();
            }
        }
    });
    url
}

fn page(switch: &SmallSwitch, request: &str) -> serde_json::Value {
    assert!(request.contains("authorization: Bearer key"), "{request}");
    let between = |start: &str, end: char| {
        let rest = request.split_once(start).unwrap().1;
        rest.split(end).next().unwrap().parse::<usize>().unwrap()
    };
    let pan = format!("99999900{:08}", between("GET /network/v1/cards/c", '/'));
    let of_card: Vec<_> = switch.holds.iter().filter(|hold| hold.pan == pan).collect();
    let results: Vec<_> =
        of_card.iter().skip(between("offset=", ' ')).take(2).map(|hold| hold.to_json()).collect();
    serde_json::json!({ "count": of_card.len(), "results": results })
}

fn serve(mut stream: TcpStream, switch: &Mutex<SmallSwitch>) {
    let (mut buffer, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        while let Frame::Complete { body, consumed, .. } = next_frame(&buffer, &Framing::default())
        {
            let frame: Vec<u8> = buffer[body].to_vec();
            // Noise of a hostile wire is not answered.
            if let Ok(message) = decode(&frame)
                && let Some(verdict) = switch.lock().answer(&message, &frame)
            {
                stream.write_all(&encode(&message, &verdict)).unwrap_or_default();
            }
            buffer.drain(..consumed);
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(len) => buffer.extend_from_slice(&chunk[..len]),
        }
    }
}

fn encode(request: &Message<'_>, verdict: &Verdict) -> Vec<u8> {
    let mut builder = MessageBuilder::new(request.mti().response().unwrap());
    for de in [2, 3, 4, 7, 11, 12, 13, 32, 37, 41, 42, 49] {
        builder = builder.copy(request, de);
    }
    builder = builder.set_text(39, verdict.response);
    if let Some(amount) = verdict.amount {
        builder = builder.set_number(4, amount.unsigned_abs());
    }
    if !verdict.code.is_empty() {
        builder = builder.set_text(44, verdict.code);
    }
    if let Some(authorization_id) = &verdict.authorization_id {
        builder = builder.set_text(38, authorization_id);
    }
    if let Some(balance) = verdict.balance {
        let group = AdditionalAmount {
            account_type: *b"00",
            amount_type: *b"02",
            currency: *b"840",
            sign: if balance < 0 { Sign::Debit } else { Sign::Credit },
            amount_minor: balance.unsigned_abs(),
        };
        builder = builder.set(54, &group.to_group().unwrap());
    }
    let mut framed = Vec::new();
    write_frame(&mut framed, &Framing::default(), None, |out| builder.encode(out)).unwrap();
    framed
}

/// In the account's currency.
fn amount_of(message: &Message<'_>) -> i64 {
    message.get_number(6).or(message.get_number(4)).unwrap().cast_signed()
}

fn pan_of(message: &Message<'_>) -> String {
    let track = message.get_text(35).and_then(|track| track.split('=').next());
    message.get_text(2).or(track).unwrap().to_owned()
}

/// Class and function of the type, card, and the elements that make a message the same again.
fn duplicate_key(message: &Message<'_>) -> Vec<u8> {
    let mut key = message.mti().bytes()[..3].to_vec();
    key.extend_from_slice(pan_of(message).as_bytes());
    for de in [3, 4, 7, 11, 12, 13, 32, 37, 41] {
        key.extend_from_slice(message.get(de).unwrap_or_default());
        key.push(b'|');
    }
    key
}
