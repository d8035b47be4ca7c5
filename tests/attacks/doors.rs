//! Both doors take the same requests: each request with hostile texts and amounts goes through ISO 8583 and
//! through HTTP, against two switches made from one seed.

use cardswitch_harness::{
    Acquirer, HttpClient, HttpRequest, Installation, Message, Purchase, Random, TestCard,
    campaign_scaled, de39_of, seed_for,
};
use serde_json::{Value, json};

#[test]
fn what_one_door_takes_the_other_takes() {
    ask_both("what_one_door_takes_the_other_takes", &CLEAN);
}

/// Both doors refuse requests with texts that steer a terminal; both take messages about moved money.
#[test]
fn hostile_texts_are_taken_by_both_doors_or_by_neither() {
    ask_both("hostile_texts_are_taken_by_both_doors_or_by_neither", &HOSTILE);
}

fn ask_both(test: &str, pieces: &[&[u8]]) {
    let seed = seed_for(test);
    let mut random = Random::new(seed);
    let (by_iso, by_http) = (Installation::init(120, 1_111), Installation::init(120, 1_111));
    let (iso_switch, http_switch) = (by_iso.serve(), by_http.serve());
    let (mut acquirer, network) = (iso_switch.acquirer(), http_switch.network_api());
    let cards = by_iso.cards.with_profile("ordinary");
    for step in 0..campaign_scaled(600, 30_000) {
        let request = Request::draw(cards[random.index(cards.len())], pieces, &mut random);
        let (iso, http) = (request.by_iso(&mut acquirer), request.by_http(&network, &mut random));
        assert_eq!(iso, http, "step {step}: {request:?}");
    }
    acquirer.assert_alive();
    // Both have made the same of it.
    for card in cards {
        let [iso, http] =
            [(&iso_switch, card), (&http_switch, twin_of(&by_http, card))].map(|(switch, card)| {
                let path = format!("/v1/allowances/{}", card.allowance_id);
                switch.api().get(&path).expect(200)["balance"].clone()
            });
        assert_eq!(iso, http, "the balance of {}", card.pan);
    }
}

fn twin_of<'a>(installation: &'a Installation, card: &TestCard) -> &'a TestCard {
    let twin = installation.cards.all().iter().find(|other| other.pan == card.pan);
    twin.expect("one seed makes the same cards")
}

/// The outcome of a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It was judged, with this code in DE39.
    Judged(String),
    /// It was refused as malformed.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Authorization,
    Verification,
    BalanceInquiry,
    SingleMessage,
    Advice,
    Presentment,
    Refund,
    /// The same as ISO 8583's other message for it, 0200.
    RefundRequest,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Authorization,
        Self::Verification,
        Self::BalanceInquiry,
        Self::SingleMessage,
        Self::Advice,
        Self::Presentment,
        Self::Refund,
        Self::RefundRequest,
    ];

    /// Whether it asks; the others tell what has happened.
    fn is_request(self) -> bool {
        !matches!(self, Self::Advice | Self::Presentment | Self::Refund | Self::RefundRequest)
    }

    /// Whether an amount of zero makes sense.
    fn takes_zero(self) -> bool {
        !matches!(self, Self::Presentment | Self::Refund | Self::RefundRequest)
    }
}

/// A currency: its codes, and how many decimals it has.
#[derive(Clone, Copy, Debug)]
struct Currency(&'static str, &'static str, usize);

const CURRENCIES: [Currency; 4] = [
    Currency("840", "USD", 2),
    Currency("392", "JPY", 0),
    Currency("414", "KWD", 3),
    Currency("978", "EUR", 2),
];

/// A request that both doors can say.
struct Request {
    kind: Kind,
    purchase: Purchase,
    currency: Currency,
    /// In cents of the account's dollars, where the currency is another.
    billing_minor: Option<u64>,
    /// Merchant's name, city, state, country and id; none longer than its ISO field.
    texts: [Vec<u8>; 5],
}

/// The widths of DE43's parts, and of DE42.
const WIDTHS: [usize; 5] = [22, 13, 3, 2, 15];

impl std::fmt::Debug for Request {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, purchase, currency, billing_minor, texts } = self;
        let texts = texts.iter().map(|text| format!("`{}`", text.escape_ascii()));
        let texts = texts.collect::<Vec<_>>().join(" ");
        let amount = purchase.amount_minor;
        write!(formatter, "{kind:?} of {amount} {currency:?} {billing_minor:?}: {texts}")
    }
}

impl Request {
    fn draw(card: &TestCard, pieces: &[&[u8]], random: &mut Random) -> Self {
        let kind = Kind::ALL[random.index(Kind::ALL.len())];
        let amounts = [0, 1, 9, 10, 99, 100, 1_050, 999_999_999_999, 100_000_000_000, 12_345];
        let mut purchase = Purchase::of(card, amounts[random.index(amounts.len())]);
        match kind {
            Kind::Verification => purchase.amount_minor = 0,
            kind if purchase.amount_minor == 0 && !kind.takes_zero() => purchase.amount_minor = 1,
            _ => {}
        }
        let currency = CURRENCIES[random.index(CURRENCIES.len())];
        let is_foreign = currency.1 != "USD";
        let billing_minor = match random.between(0, 6) {
            // One foreign amount in six comes without what it is in dollars.
            0 if is_foreign => None,
            _ if is_foreign => Some(random.between(0, 5_000)),
            // One in dollars is billed as it is, one as something else.
            0 => Some(purchase.amount_minor),
            1 => Some(random.between(0, 5_000)),
            _ => None,
        };
        let mut texts = WIDTHS.map(|width| text(random, pieces, width));
        if !kind.is_request() {
            // No JSON says this, and what tells of money has no other way to be refused.
            texts.iter_mut().flatten().filter(|byte| **byte == 0xff).for_each(|byte| *byte = 0x7f);
        }
        Self { kind, purchase, currency, billing_minor, texts }
    }

    fn by_iso(&self, acquirer: &mut Acquirer) -> Verdict {
        let mut message = self.purchase.request();
        let (mti, code) = match self.kind {
            Kind::Authorization | Kind::Verification => ("0100", "000000"),
            Kind::BalanceInquiry => ("0100", "300000"),
            Kind::SingleMessage => ("0200", "000000"),
            Kind::Advice => ("0120", "000000"),
            Kind::Presentment => ("0220", "000000"),
            Kind::Refund => ("0220", "200000"),
            Kind::RefundRequest => ("0200", "200000"),
        };
        message.mti = mti.to_owned();
        message.set(3, code);
        message.set(49, self.currency.0);
        message.set_optional(6, self.billing_minor.map(|minor| format!("{minor:012}")).as_deref());
        message.set_optional(51, self.billing_minor.map(|_| "840"));
        let padded: Vec<_> =
            self.texts.iter().zip(WIDTHS).map(|(text, width)| padded(text, width)).collect();
        message.set_bytes(43, &padded[..4].concat());
        message.set_bytes(42, &padded[4]);
        acquirer.send_frame(&message.encode()).expect("no content costs the connection");
        verdict_of(&acquirer.receive().expect("every message is answered"))
    }

    fn by_http(&self, network: &HttpClient, random: &mut Random) -> Verdict {
        let path = match self.kind {
            Kind::Advice => "advices",
            Kind::Presentment => "presentments",
            Kind::Refund | Kind::RefundRequest => "refunds",
            _ => "authorizations",
        };
        let mut body = json!({
            "card_number": self.purchase.pan, "stan": self.purchase.stan, "rrn": self.purchase.rrn,
            "acquirer": "400001", "terminal": "HARNESS1", "transmission_time": "0115120000",
            "currency": self.currency.1,
        });
        let kind = match self.kind {
            Kind::Authorization => Some("purchase"),
            Kind::Verification => Some("verification"),
            Kind::BalanceInquiry => Some("balance_inquiry"),
            Kind::SingleMessage => Some("single_message"),
            _ => None,
        };
        if let Some(kind) = kind {
            body["kind"] = json!(kind);
        }
        // Texts and amounts are written by hand: any bytes, and numbers of every form.
        let mut bytes = body.to_string().into_bytes();
        bytes.pop();
        bytes.extend(format!(",\"merchant\":{{\"mcc\":{}", json!(self.purchase.mcc)).bytes());
        let names = ["name", "city", "state", "country", "card_acceptor_id"];
        for (name, text) in names.iter().zip(&self.texts) {
            bytes.extend(format!(",\"{name}\":").bytes());
            bytes.extend(json_text(text));
        }
        let amount = spelled(self.purchase.amount_minor, self.currency.2, random);
        bytes.extend(format!("}},\"amount\":{amount}").bytes());
        if let Some(minor) = self.billing_minor {
            bytes.extend(format!(",\"billing_amount\":{}", spelled(minor, 2, random)).bytes());
        }
        bytes.push(b'}');
        let answer = network.send(&HttpRequest {
            method: "POST",
            path: &format!("/network/v1/{path}"),
            headers: &[("content-type", "application/json")],
            body: &bytes,
        });
        match answer.status {
            200 => judged(&answer.json(), self.kind),
            400 => Verdict::Refused,
            other => unreachable!("{other}: {}", answer.text()),
        }
    }
}

fn judged(body: &Value, kind: Kind) -> Verdict {
    // 0130 is always 00, whatever came of the advice; 0230 tells no code.
    let code = match kind {
        Kind::Advice => "00".to_owned(),
        _ => de39_of(&body["response_code"].to_string()).expect("a known code").to_owned(),
    };
    Verdict::Judged(code)
}

fn verdict_of(answer: &Message) -> Verdict {
    match answer.response() {
        "30" => Verdict::Refused,
        code => Verdict::Judged(code.to_owned()),
    }
}

fn padded(text: &[u8], width: usize) -> Vec<u8> {
    let mut padded = text.to_vec();
    padded.resize(width, b' ');
    padded
}

/// A text of at most `width` bytes, from letters and from what steers terminals, pages and files.
fn text(random: &mut Random, pieces: &[&[u8]], width: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..random.between(0, 8) {
        let piece = pieces[random.index(pieces.len())];
        if text.len() + piece.len() <= width {
            text.extend_from_slice(piece);
        }
    }
    text
}

const CLEAN: [&[u8]; 14] = [
    b"A", b"z", b"7", b" ", b"  ", b"'", b"\"", b"\\", b"<b>", b"&#1083;", b"%00", b"{}", b"=1+1",
    b"-",
];

/// Controls, marks that turn the direction of lines, separators of lines, and no UTF-8 at all. Letters
/// beyond ASCII are not among them: only JSON can say these.
const HOSTILE: [&[u8]; 11] = [
    b"A",
    b"\0",
    b"\r\n",
    b"\t",
    b"\x1b[2J",
    b"\x7f",
    "\u{85}".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{2066}".as_bytes(),
    "\u{2028}".as_bytes(),
    b"\xff",
];

/// A JSON text; bytes that are no UTF-8 stand in it as they are.
fn json_text(text: &[u8]) -> Vec<u8> {
    let mut json = vec![b'"'];
    for chunk in text.utf8_chunks() {
        let quoted = json!(chunk.valid()).to_string();
        json.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
        json.extend_from_slice(chunk.invalid());
    }
    json.push(b'"');
    json
}

/// An amount as JSON: a number, a text, with more zeros, with an exponent.
fn spelled(minor: u64, decimals: usize, random: &mut Random) -> String {
    let digits = format!("{minor:0>width$}", width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    let plain = if decimals == 0 { whole.to_owned() } else { format!("{whole}.{fraction}") };
    match random.between(0, 4) {
        0 => format!("\"{plain}\""),
        1 if decimals > 0 => format!("{plain}0"),
        2 => format!("{minor}e-{decimals}"),
        _ => plain,
    }
}
