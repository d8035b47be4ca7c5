//! Input that no acquirer should send: the sender gets a format error where one can be given, its neighbours
//! notice nothing, memory stays bounded, and no card number reaches the log.

use std::time::Duration;

use cardswitch_harness::{
    Acquirer, Installation, Message, Purchase, Random, Switch, campaign_scaled, crowd, next_stan,
    seed_for,
};

/// A switch under ill treatment, with a neighbour whose connection must never suffer.
struct Scene {
    installation: Installation,
    switch: Switch,
    neighbour: Acquirer,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let installation = Installation::init(60, seed);
        let switch = installation.serve();
        let neighbour = switch.acquirer();
        Self { installation, switch, neighbour }
    }

    fn purchase(&self) -> Purchase {
        Purchase::of(self.installation.cards.ordinary(), 1)
    }

    /// The neighbour's connection works, new ones work, and the log shows no card number.
    #[track_caller]
    fn assert_unharmed(&mut self) {
        let request = self.purchase().request();
        self.neighbour.ask(&request).expect_approved();
        let request = self.purchase().request();
        self.switch.acquirer().ask(&request).expect_approved();
        let log = self.switch.log();
        for card in self.installation.cards.all() {
            assert!(!log.contains(&card.pan), "a card number of `{}` is in the log", card.profile);
        }
    }
}

#[test]
fn broken_frames_cost_no_connection() {
    let mut scene = Scene::new(504);
    let good = scene.purchase().request().encode();
    let too_short = good[..good.len() - 5].to_vec();
    let too_long = [&good[..], b"trailing"].concat();
    let mut all_fields = good.clone();
    all_fields[4..12].fill(0xFF);
    let mut no_fields = good.clone();
    no_fields[4..12].fill(0);
    let mut long_pan = good.clone();
    // DE2 begins right after the bitmap, with its length: 99 is above its 19.
    long_pan[12..14].copy_from_slice(b"99");
    let rows: [(&str, Vec<u8>); 8] = [
        ("ends inside a field", too_short),
        ("goes on after the last field", too_long),
        ("a bitmap with every bit set", all_fields),
        ("an empty bitmap", no_fields),
        ("DE2 longer than it may be", long_pan),
        ("MTI only", b"0100".to_vec()),
        ("ends inside the MTI", b"01".to_vec()),
        ("no text at all", vec![0xFF; 300]),
    ];
    for (what, bytes) in rows {
        let mut acquirer = scene.switch.acquirer();
        acquirer.send_frame(&bytes).expect("the connection is open");
        assert_next_is_echo_or_format_error(&mut acquirer, what);
    }
    scene.assert_unharmed();
}

#[test]
fn half_a_message_and_silence_holds_up_nobody() {
    let mut scene = Scene::new(506);
    let message = scene.purchase().request().encode();
    let length = u16::try_from(message.len()).expect("a short message").to_be_bytes();
    let frame = [&length[..], &message].concat();
    let mut silent: Vec<_> = [1, 2, 3, 20, frame.len() - 1]
        .iter()
        .map(|&sent| {
            let mut acquirer = scene.switch.acquirer();
            acquirer.send_raw(&frame[..sent]).expect("the connection is open");
            (acquirer, sent)
        })
        .collect();
    scene.assert_unharmed();
    // Nothing was decided on half a message; the rest of it, late, is answered as usual.
    let (last, sent) = silent.last_mut().expect("five connections");
    assert!(last.is_silent_for(Duration::from_millis(200)), "half a message is no message");
    last.send_raw(&frame[*sent..]).expect("the connection is still open");
    last.receive().expect("an answer").expect_approved();
}

#[test]
fn random_bytes_harm_nobody() {
    let mut scene = Scene::new(507);
    let mut random = Random::new(seed_for("random_bytes_harm_nobody"));
    let good = scene.purchase().request().encode();
    for _ in 0..campaign_scaled(300, 100_000) {
        let mut bytes = good.clone();
        for _ in 0..random.between(1, 6) {
            let at = random.index(bytes.len());
            bytes[at] = random.bytes(1)[0];
        }
        let mut acquirer = scene.switch.acquirer();
        acquirer.send_frame(&bytes).expect("the connection is open");
        acquirer.finish_sending();
        while acquirer.receive().is_ok() {}
    }
    // The spoilt messages may have been readable purchases or wrong guesses on this card,
    // so the others are asked.
    scene.neighbour.assert_alive();
    let other = scene.installation.cards.with_profile("ordinary")[1];
    let request = Purchase::of(other, 1).request();
    scene.switch.acquirer().ask(&request).expect_approved();
    scene.switch.stop();
    scene.installation.verify_ok();
}

#[test]
fn thousands_of_idle_connections_cost_bounded_memory() {
    let mut scene = Scene::new(508);
    let before = scene.switch.resident_bytes();
    // No peer has more than half of three eighths of the file descriptors.
    let connections = campaign_scaled(2_000, 3_500);
    let door = scene.switch.iso8583;
    let idle = crowd(door, connections, |_| {
        Some(Acquirer::try_connect(door).expect("`ulimit -n` is high enough"))
    });
    scene.neighbour.assert_alive();
    let request = scene.purchase().request();
    scene.neighbour.ask(&request).expect_approved();

    let grown = scene.switch.resident_bytes().saturating_sub(before);
    let allowed = u64::try_from(connections).expect("a count fits") * 32 * 1024 + (16 << 20);
    assert!(grown <= allowed, "{connections} idle connections took {grown} bytes");

    drop(idle);
    scene.assert_unharmed();
}

/// After bad input: a format error may come first, then the connection must answer an echo.
#[track_caller]
fn assert_next_is_echo_or_format_error(acquirer: &mut Acquirer, what: &str) {
    let echo = Message::network_management("301", next_stan());
    acquirer.send(&echo).expect("the connection is open");
    let mut answer = acquirer.receive().expect("the connection outlives bad input");
    if answer.get(11) != echo.get(11) {
        assert_eq!(answer.response(), "30", "{what}: {answer:?}");
        answer = acquirer.receive().expect("the connection outlives bad input");
    }
    assert_eq!((answer.mti.as_str(), answer.get(11)), ("0810", echo.get(11)), "{what}");
}
