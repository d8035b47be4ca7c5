//! The answers about a card are those of one switch that does one thing at a time, whichever process dies.
//!
//! Clients at the doors of all nodes authorize, reverse and inquire, and note when they asked and when
//! the answer came. stateright's tester then looks for an order of all requests that keeps to these times and in
//! which a single card gives the same answers. A request without an answer may have happened at any later time,
//! or never.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use cardswitch_harness::{
    Acquirer, Cluster, Direction, Disconnection, Installation, Message, Purchase, Random, Switch,
    TestCard, campaign_scaled, etcd_machine, has_machines, node_machine, run_cardswitch, seed_for,
};
use serde_json::json;
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use crate::failover::{Blow, strike, text_of};

/// The amount that a card may spend, so little that some purchases are declined. Units: cents.
const ROOM: u64 = 1_000;
const CLIENTS: u32 = 3;
/// The number of cards, so large that each has few acts at once: the tester tries every order of those.
const CARDS_A_ROUND: usize = 16;
/// Beyond so many acts a card rests, and beyond so many without an answer: the tester tries each of those
/// at every later place, so its time would have no bound on a slow machine.
const ACTS_MAX: usize = 24;
const UNANSWERED_MAX: usize = 2;
/// The pause between two acts of a client, so that a history spans the blow and stays short.
const PAUSE: Duration = Duration::from_millis(15);
/// How long clients go on before and after the blow.
const BESIDE_THE_BLOW: Duration = Duration::from_millis(400);

/// An act on a card.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Act {
    /// A purchase, by its reference.
    Authorize { rrn: String, amount: u64 },
    /// A reversal of it, whole.
    Reverse { rrn: String },
    /// A question about the amount that may still be spent.
    Inquire,
}

/// How an act was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ActOutcome {
    /// It was done, or is so, and so much may still be spent. Units: cents.
    Room(u64),
    /// It was declined.
    Declined,
}

/// A card that does one thing at a time.
#[derive(Clone, Debug, Default)]
struct OneCard {
    spent: BTreeMap<String, u64>,
}

impl OneCard {
    fn room(&self) -> u64 {
        ROOM - self.spent.values().sum::<u64>()
    }
}

impl SequentialSpec for OneCard {
    type Op = Act;
    type Ret = ActOutcome;

    fn invoke(&mut self, act: &Act) -> ActOutcome {
        match act {
            Act::Authorize { amount, .. } if *amount > self.room() => return ActOutcome::Declined,
            Act::Authorize { rrn, amount } => drop(self.spent.insert(rrn.clone(), *amount)),
            Act::Reverse { rrn } if self.spent.remove(rrn).is_none() => {
                return ActOutcome::Declined;
            }
            Act::Reverse { .. } | Act::Inquire => {}
        }
        ActOutcome::Room(self.room())
    }
}

/// A request or an answer seen at a client.
#[derive(Clone, Debug)]
enum Sight {
    Asked { client: u32, act: Act },
    Told { client: u32, told: ActOutcome },
}

/// The requests and answers of each card, in the order in which they were seen.
#[derive(Debug, Default)]
struct History {
    sights: Mutex<BTreeMap<String, Vec<Sight>>>,
    clients: AtomicU32,
}

impl History {
    /// The number of a new client, which asks one thing at a time. A client without an answer asks nothing more.
    fn new_client(&self) -> u32 {
        self.clients.fetch_add(1, Ordering::Relaxed)
    }

    fn note(&self, card: &TestCard, sight: Sight) {
        let mut sights = self.sights.lock().unwrap_or_else(PoisonError::into_inner);
        sights.entry(card.card_id.clone()).or_default().push(sight);
    }

    /// Whether another act on the card leaves the tester a bounded search.
    fn has_room(&self, card: &TestCard) -> bool {
        let sights = self.sights.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sights) = sights.get(&card.card_id) else { return true };
        let asked = sights.iter().filter(|sight| matches!(sight, Sight::Asked { .. })).count();
        asked < ACTS_MAX && 2 * asked - sights.len() <= UNANSWERED_MAX
    }

    fn asked(&self, card: &TestCard, client: u32, act: Act) {
        self.note(card, Sight::Asked { client, act });
    }

    fn told(&self, card: &TestCard, client: u32, told: ActOutcome) {
        self.note(card, Sight::Told { client, told });
    }

    fn into_sights(self) -> BTreeMap<String, Vec<Sight>> {
        self.sights.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cards whose answers fit no order of requests to a single card.
    fn torn_cards(self) -> Vec<String> {
        let mut torn = Vec::new();
        for (card, sights) in self.into_sights() {
            let answered = sights.iter().filter(|sight| matches!(sight, Sight::Told { .. }));
            eprintln!("{card}: {} answers", answered.count());
            if !is_linearizable(&sights) {
                eprintln!("no order explains these:");
                sights.iter().for_each(|sight| eprintln!("  {sight:?}"));
                torn.push(card);
            }
        }
        torn
    }
}

fn is_linearizable(sights: &[Sight]) -> bool {
    let is_answered = |asked: u32| move |sight: &Sight| matches!(sight, Sight::Told { client, .. } if *client == asked);
    let mut tester = LinearizabilityTester::new(OneCard::default());
    for (place, sight) in sights.iter().enumerate() {
        match sight {
            // A question without an answer says nothing.
            Sight::Asked { client, act: Act::Inquire }
                if !sights[place..].iter().any(is_answered(*client)) => {}
            Sight::Asked { client, act } => {
                tester.on_invoke(*client, act.clone()).expect("a client asks one thing at a time");
            }
            Sight::Told { client, told } => {
                tester.on_return(*client, told.clone()).expect("who is told has asked");
            }
        }
    }
    tester.is_consistent()
}

/// A client of one door, until it is to stop.
struct Client<'a> {
    history: &'a History,
    cards: &'a [TestCard],
    name: u32,
    /// Purchases that were approved and may be reversed.
    approved: Vec<(usize, Purchase, String)>,
}

impl<'a> Client<'a> {
    fn new(history: &'a History, cards: &'a [TestCard]) -> Self {
        Self { history, cards, name: history.new_client(), approved: Vec::new() }
    }

    fn run(
        &mut self,
        door: SocketAddr,
        random: &mut Random,
        (stop, turn): (&AtomicBool, &RwLock<()>),
    ) {
        while !stop.load(Ordering::Acquire) {
            let Ok(mut acquirer) = Acquirer::try_connect(door) else {
                thread::sleep(PAUSE);
                continue;
            };
            while !stop.load(Ordering::Acquire) {
                let turn = turn.read();
                let acted = self.act(&mut acquirer, random);
                drop(turn);
                if acted.is_err() {
                    self.name = self.history.new_client();
                    break;
                }
                thread::sleep(PAUSE);
            }
        }
    }

    /// Does one thing. Errors: whether it was done is not known.
    fn act(&mut self, acquirer: &mut Acquirer, random: &mut Random) -> Result<(), Disconnection> {
        let place = random.index(self.cards.len());
        if !self.history.has_room(&self.cards[place]) {
            return Ok(());
        }
        match random.index(10) {
            0..3 => self.inquire(acquirer, place).map(drop),
            3..5 if !self.approved.is_empty() => {
                let (place, purchase, id) =
                    self.approved.swap_remove(random.index(self.approved.len()));
                if !self.history.has_room(&self.cards[place]) {
                    return Ok(());
                }
                let act = Act::Reverse { rrn: purchase.rrn.clone() };
                self.ask(acquirer, place, act, &purchase.reversal(&id)).map(drop)
            }
            _ => self.authorize(acquirer, place, random.between(1, 300)),
        }
    }

    fn authorize(
        &mut self,
        acquirer: &mut Acquirer,
        place: usize,
        amount: u64,
    ) -> Result<(), Disconnection> {
        let purchase = Purchase::of(&self.cards[place], amount);
        let act = Act::Authorize { rrn: purchase.rrn.clone(), amount };
        let answer = self.ask(acquirer, place, act, &purchase.request())?;
        if answer.response() == "00" {
            let id = answer.expect_approved();
            self.approved.push((place, purchase, id));
        }
        Ok(())
    }

    fn inquire(&self, acquirer: &mut Acquirer, place: usize) -> Result<Message, Disconnection> {
        self.ask(acquirer, place, Act::Inquire, &inquiry(&self.cards[place]))
    }

    fn ask(
        &self,
        acquirer: &mut Acquirer,
        place: usize,
        act: Act,
        request: &Message,
    ) -> Result<Message, Disconnection> {
        let card = &self.cards[place];
        self.history.asked(card, self.name, act);
        acquirer.send(request)?;
        let answer = acquirer.receive()?;
        let told = told_by(&answer).ok_or(Disconnection)?;
        self.history.told(card, self.name, told);
        Ok(answer)
    }
}

fn inquiry(card: &TestCard) -> Message {
    let mut message = Purchase::of(card, 0).request();
    message.set(3, "300000");
    message.remove(4);
    message
}

/// The content of an answer; none where it says that the outcome is unknown.
fn told_by(answer: &Message) -> Option<ActOutcome> {
    match answer.response() {
        "00" => Some(ActOutcome::Room(room_of(answer))),
        "91" | "96" => None,
        _ => Some(ActOutcome::Declined),
    }
}

/// The amount that may still be spent: an amount of type 02 in DE54.
fn room_of(answer: &Message) -> u64 {
    let amounts = answer.get(54).expect("what is approved says what is left");
    assert_eq!(&amounts[2..8], "02840C", "{answer:?}");
    amounts[8..20].parse().expect("digits")
}

/// Gives cards exactly `ROOM`.
fn set_room(switch: &Switch, cards: &[TestCard]) {
    let amount = ROOM / 100;
    let room = json!({
        "amount": amount, "interval": null, "daily_limit": null, "transaction_limit": null,
    });
    for card in cards {
        switch.api().put(&format!("/v1/allowances/{}", card.allowance_id), &room).expect(200);
    }
}

/// Cards without any use so far.
fn fresh_cards(cluster: &Cluster, round: usize) -> Vec<TestCard> {
    let cards = cluster.installation.cards.with_profile("ordinary");
    let fresh = cards.into_iter().skip(round * CARDS_A_ROUND).take(CARDS_A_ROUND).cloned();
    let fresh: Vec<TestCard> = fresh.collect();
    assert_eq!(fresh.len(), CARDS_A_ROUND, "there are cards for each round");
    set_room(cluster.node(cluster.wait_for_leader()), &fresh);
    fresh
}

/// The leader hears nothing of etcd any more. As soon as another one leads and has authorized purchases, the old
/// one is asked for the balances of the cards. Clients rest until then: with anything to write, the old leader
/// could answer nothing for that reason alone. A node that has not seen the change yet would send it a request.
fn ask_one_that_was_cut_off(
    cluster: &Cluster,
    (leader, turn): (usize, &RwLock<()>),
    (history, cards): (&History, &[TestCard]),
) {
    let machine = node_machine(leader);
    let mut at_old = cluster.node(leader).acquirer();
    at_old.assert_alive();
    let nobody_acts = turn.write();
    cluster.lan().lose(machine, Direction::Inward, &[0, 1, 2].map(etcd_machine));
    let leads = cluster.wait_for_other_leader(leader);
    let mut client = Client::new(history, cards);
    let mut at_new = cluster.node(leads).acquirer();
    for place in 0..cards.len() {
        client.authorize(&mut at_new, place, 1).expect("a leader answers");
    }
    let ask = |card: &TestCard| {
        let (client, message) = (history.new_client(), inquiry(card));
        history.asked(card, client, Act::Inquire);
        at_old.send(&message).expect("the door is open");
        (client, message)
    };
    let asked: Vec<(u32, Message)> = cards.iter().map(ask).collect();
    thread::sleep(BESIDE_THE_BLOW);
    drop(nobody_acts);
    cluster.lan().lose_nothing(machine);
    // It learns that it leads no more, and its connections break.
    while let Ok(answer) = at_old.receive() {
        let place = asked.iter().position(|(_, request)| request.get(37) == answer.get(37));
        let place = place.expect("an answer belongs to a question");
        if let Some(told) = told_by(&answer) {
            history.told(&cards[place], asked[place].0, told);
        }
    }
}

/// The trial of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// It hears nothing of etcd, and is asked though another one leads.
    CutOff,
    /// A blow.
    Blow(Blow),
}

#[test]
fn answers_about_a_card_are_linearizable_whatever_dies() {
    let mut random = Random::new(seed_for("answers_about_a_card_are_linearizable"));
    let trials = [
        Trial::CutOff,
        Trial::Blow(Blow::FrozenLeader),
        Trial::Blow(Blow::Leader),
        Trial::Blow(Blow::StepDown),
    ];
    if !has_machines("the leader that is cut off") {
        return;
    }
    let rounds = campaign_scaled(trials.len(), 60);
    let cards = u32::try_from(rounds * CARDS_A_ROUND * 2).expect("few");
    let installation = Installation::init(cards.max(200), random.next_u64() >> 1);
    let mut cluster = Cluster::on_machines(installation);
    for round in 0..rounds {
        let trial = trials[round % trials.len()];
        let cards = fresh_cards(&cluster, round);
        let history = History::default();
        let (stop, turn) = (AtomicBool::new(false), RwLock::new(()));
        let leader = cluster.wait_for_leader();
        let is_used = |node: &usize| trial != Trial::CutOff || *node != leader;
        let doors = (0..3).filter(is_used).map(|node| cluster.wait_for_doors(node).iso8583);
        let doors: Vec<_> = doors.collect();
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (door, seed) = (doors[client as usize % doors.len()], random.next_u64());
                let (history, cards, when) = (&history, &cards[..], (&stop, &turn));
                scope.spawn(move || {
                    Client::new(history, cards).run(door, &mut Random::new(seed), when);
                });
            }
            thread::sleep(BESIDE_THE_BLOW);
            match trial {
                Trial::CutOff => {
                    ask_one_that_was_cut_off(&cluster, (leader, &turn), (&history, &cards));
                }
                Trial::Blow(blow) => strike(&mut cluster, (blow, leader), &mut random),
            }
            thread::sleep(BESIDE_THE_BLOW);
            stop.store(true, Ordering::Release);
        });
        eprintln!("round {round}: {trial:?} of {leader}");
        assert_eq!(history.torn_cards(), Vec::<String>::new(), "round {round}: {trial:?}");
    }
}

/// A switch that serves alone asks no other node before it answers: it stands in for a node that led once and
/// answers without the chain. (Each answer about a card has a record of its own, so a node cannot give one
/// without it, even without `Journal::confirm`; that is for repeats and refusals.)
#[test]
fn a_leader_that_answers_without_the_chain_is_told_by_its_answers() {
    let mut cluster = Cluster::of(Installation::init(60, 81));
    let cards = fresh_cards(&cluster, 0);
    let history = History::default();
    let mut client = Client::new(&history, &cards);
    let mut authorize = |node: &Switch| {
        client.authorize(&mut node.acquirer(), 0, 100).expect("a leader answers");
    };
    let leader = cluster.wait_for_leader();
    authorize(cluster.node(leader));
    cluster.wait_until_level();
    cluster.take(leader).kill9();
    let leads = cluster.wait_for_other_leader(leader);
    authorize(cluster.node(leads));
    let data = cluster.data(leader);
    run_cardswitch(&["cluster", "leave", "--data", text_of(&data)]).expect_done();
    let alone = cluster.installation.serve_directory(&data, &[]);
    let asked = Client::new(&history, &cards).inquire(&mut alone.acquirer(), 0);
    assert_eq!(room_of(&asked.expect("it answers")), ROOM - 100, "it knows of one purchase");
    let sights = history.into_sights().remove(&cards[0].card_id).expect("it was used");
    let (before, _) = sights.split_at(sights.len() - 2);
    assert!(is_linearizable(before), "{before:?}");
    assert!(!is_linearizable(&sights), "{sights:?}");
}
