"""Codes, PIN blocks, key blocks and cryptograms, judged by PyPI `psec` and `pyemv`.

Keys and messages are random; the seed is printed, and `CARDSWITCH_SEED` repeats it.
"""

import contextlib
import copy
import os
import pathlib
import random
import struct
import subprocess
import time

import iso8583
import psec
import pyemv
import pytest
from conftest import binary, parse_address, run_json, running
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.cmac import CMAC
from iso8583.specs import default_ascii
from test_pyiso8583 import SPEC, Client, network_management, purchase, stan

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SEED = int(os.environ.get("CARDSWITCH_SEED", random.randrange(1 << 32)))
RANDOM = random.Random(SEED)
print(f"CARDSWITCH_SEED={SEED}")

SPEC["55"] |= {"data_enc": "b", "len_enc": "ascii", "max_len": 255}
MASTER = RANDOM.randbytes(24)
EBCDIC = copy.deepcopy(SPEC)
for form in EBCDIC.values():
    for part in ("data_enc", "len_enc"):
        form[part] = form[part].replace("ascii", "cp037")
SPELLINGS = {"ascii-hex": default_ascii, "ebcdic": EBCDIC}


def cmac(algorithm):
    def code(key, data):
        tag = CMAC(algorithm(key))
        tag.update(data)
        return tag.finalize()[:8]

    return code


def retail(padding):
    return lambda key, data: psec.mac.generate_retail_mac(key[:8], key[8:], data, padding)


# The setting, the cipher of the key, its length, its code, its use in a key block.
ALGORITHMS = {
    "retail_1": ("retail_1", "tdes", 16, retail(1), "M3T"),
    "retail_2": ("retail_2", "tdes", 16, retail(2), "M3T"),
    "cmac of TDES": ("cmac", "tdes", 24, cmac(algorithms.TripleDES), "M6T"),
    "cmac of AES": ("cmac", "aes", 32, cmac(algorithms.AES), "M6A"),
}


@contextlib.contextmanager
def zone(tmp_path, keys, mac=None):
    """A switch whose door has these keys: their names, with cipher and bytes."""
    file = tmp_path / "zone.keys"
    file.write_text(
        "".join(f'{name} = {{ {cipher} = "{key.hex()}" }}\n' for name, (cipher, key) in keys.items())
    )
    file.chmod(0o600)

    def prepare(data, _):
        with open(data + "/cardswitch.toml", "a") as settings:
            settings.write(f'[iso8583_zone]\nkeys = "{file}"\n')
            settings.write(f'mac = "{mac}"\n' if mac else "")

    with running(tmp_path, prepare=prepare) as switch:
        yield switch


class Line(Client):
    """A peer whose messages have codes, and who takes no answer without."""

    def __init__(self, address, key, code):
        super().__init__(address)
        self.key, self.code = key, code

    def send(self, message, spoil=None):
        place = "128" if any(field.isdigit() and int(field) > 64 for field in message) else "64"
        raw, _ = iso8583.encode({**message, place: "00" * 8}, SPEC)
        signed = raw[:-8] + self.code(self.key, bytes(raw[:-8]))
        self.send_raw(spoil(bytes(signed)) if spoil else signed)

    def send_raw(self, raw):
        self.socket.sendall(struct.pack(">H", len(raw)) + raw)

    def receive(self):
        (length,) = struct.unpack(">H", self._exactly(2))
        raw = self._exactly(length)
        assert raw[-8:] == self.code(self.key, raw[:-8]), "an answer has no right code"
        answer, _ = iso8583.decode(raw, SPEC)
        assert ("128" in answer) or ("64" in answer)
        return answer


@pytest.fixture(params=ALGORITHMS.values(), ids=ALGORITHMS.keys())
def authenticated(tmp_path, request):
    setting, cipher, length, code, usage = request.param
    key = RANDOM.randbytes(length)
    keys = {"master": ("tdes", MASTER), "mac": (cipher, key)}
    with zone(tmp_path, keys, setting) as switch:
        yield switch, Line(switch.address, key, code), usage


def test_messages_and_answers_have_codes(authenticated):
    switch, line, _ = authenticated
    for function in ("001", "301"):
        assert line.ask(network_management(function))["39"] == "00"
    card = switch.card("ordinary")
    for _ in range(20):
        # Every length that a block may be filled up from.
        name = "X" * RANDOM.randrange(1, 23)
        request = purchase(card, RANDOM.randrange(1, 500))
        request["43"] = f"{name:<22}{'SAN FRANCISCO':<13}{'CA':<3}US"
        approval = line.ask(request)
        assert approval["39"] == "00", approval
    assert line.ask(purchase(switch.card("suspended"), 100))["39"] == "62"


@pytest.mark.parametrize("dialect", ["ascii-hex", "ebcdic"])
def test_codes_are_over_messages_as_each_door_spells_them(tmp_path, dialect):
    key, code = RANDOM.randbytes(16), retail(1)
    file = tmp_path / "zone.keys"
    file.touch(0o600)
    file.write_text(f'mac = {{ tdes = "{key.hex()}" }}\n')

    def prepare(data, _):
        with open(data + "/cardswitch.toml", "a") as settings:
            settings.write(
                '[[iso8583_doors]]\nname = "other"\naddress = "127.0.0.1:0"\n'
                f'dialect = "{dialect}"\nzone = {{ keys = "{file}", mac = "retail_1" }}\n'
            )

    with running(tmp_path, prepare=prepare) as switch:
        client = Client(switch.doors["other"])
        spec = SPELLINGS[dialect]
        for amount in (100, 200):
            request = purchase(switch.card("ordinary"), amount)
            raw, _ = iso8583.encode({**request, "64": "00" * 8}, spec)
            width = len(raw) - len(iso8583.encode(dict(request), spec)[0])
            raw = bytes(raw)[:-width]
            made = code(key, raw)
            if amount == 200:
                made = made[:-1] + bytes([made[-1] ^ 1])
            wire = raw + (made if width == 8 else made.hex().upper().encode())
            client.socket.sendall(struct.pack(">H", len(wire)) + wire)
            (length,) = struct.unpack(">H", client._exactly(2))
            said = client._exactly(length)
            answer, _ = iso8583.decode(said, spec)
            assert answer["39"] == ("00" if amount == 100 else "63"), answer
            assert answer["64"].upper() == code(key, said[:-width]).hex().upper()
        # The first door has no zone, and asks for no code.
        assert Client(switch.address).ask(network_management("301"))["39"] == "00"


def insecure(answer):
    return answer["39"], answer["44"]


def test_wrong_and_missing_codes_are_refused_and_answered_with_a_code(authenticated):
    switch, line, _ = authenticated
    card = switch.card("ordinary")
    request = purchase(card, 777)

    def flip(raw):
        place = RANDOM.randrange(len(raw) - 8, len(raw))
        return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]

    def raise_amount(raw):
        assert raw.count(b"000000000777") == 1
        return raw.replace(b"000000000777", b"000000000778")

    for spoil in (flip, raise_amount):
        line.send(request, spoil)
        assert insecure(line.receive()) == ("63", "1000 mac_wrong")
    raw, _ = iso8583.encode(dict(request), SPEC)
    line.send_raw(raw)
    assert insecure(line.receive()) == ("63", "1000 mac_missing")
    # A message that cannot be read is answered with a code too.
    line.send_raw(raw.replace(b"000000000777", b"00000000077x"))
    answer = line.receive()
    assert (answer["39"], answer["44"]) == ("30", "1000 invalid_de4")
    # None of it was a purchase: the first one that is right is no repetition.
    assert line.ask(request)["39"] == "00"
    figures = switch_figures(switch)
    assert "cardswitch_iso8583_insecure_messages_total 3" in figures


def switch_figures(switch):
    import urllib.request

    with urllib.request.urlopen(f"http://{switch.metrics}/metrics") as answer:
        return answer.read().decode()


def key_change(usage, key, seconds, kbpk=MASTER, mode=None):
    mode = mode or ("B" if usage.startswith("P") else "C")
    block = psec.tr31.wrap(kbpk, f"{'B' if len(kbpk) == 24 else 'D'}0000{usage}{mode}00N0000", key)
    sent_at = time.strftime("%m%d%H%M%S", time.gmtime(time.time() + seconds))
    return {"t": "0800", "7": sent_at, "11": stan(), "48": block, "70": "101"}


def test_keys_are_exchanged_and_no_exchange_is_replayed(authenticated):
    _, line, usage = authenticated
    second = Line(line.socket.getpeername(), line.key, line.code)
    fresh = RANDOM.randbytes(len(line.key))
    change = key_change(usage, fresh, 3)
    assert line.ask(change)["39"] == "00"
    # A message that was under way is taken, and answered under its own key.
    assert second.ask(network_management("301"))["39"] == "00"
    line.key = fresh
    assert line.ask(network_management("301"))["39"] == "00"

    def refused(request):
        line.send(request)
        return insecure(line.receive())

    assert refused(change) == ("63", "1000 key_replayed")
    assert refused(key_change(usage, fresh, -60)) == ("63", "1000 key_replayed")
    assert refused(key_change(usage, fresh, 3600)) == ("63", "1000 key_replayed")
    foreign = key_change(usage, fresh, 20, kbpk=RANDOM.randbytes(24))
    assert refused(foreign) == ("63", "1000 key_refused")
    # Of another use, for which this door has no place.
    assert refused(key_change("P0T", RANDOM.randbytes(16), 20)) == ("63", "1000 key_refused")
    assert refused(key_change(usage, fresh, 20, mode="V")) == ("63", "1000 key_refused")
    cut = key_change(usage, fresh, 20)
    cut["48"] = cut["48"][:-1]
    assert refused(cut) == ("63", "1000 key_refused")
    assert line.ask(key_change(usage, RANDOM.randbytes(len(fresh)), 30))["39"] == "00"


class Restarted:
    """A switch that is killed and started again on one directory, with a master and a MAC key."""

    def __init__(self, tmp_path):
        self.data, self.log = str(tmp_path / "data"), tmp_path / "log"
        self.key, self.code = RANDOM.randbytes(16), retail(1)
        self.keys = tmp_path / "zone.keys"
        run_json("init", "--data", self.data)
        self.write_keys(self.key)
        with open(self.data + "/cardswitch.toml", "a") as settings:
            settings.write(f'[iso8583_zone]\nkeys = "{self.keys}"\nmac = "retail_1"\n')
        self.start()

    def write_keys(self, mac):
        self.keys.touch(0o600)
        self.keys.write_text(f'master = {{ tdes = "{MASTER.hex()}" }}\nmac = {{ tdes = "{mac.hex()}" }}\n')

    def start(self):
        doors = ["--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0"]
        command = [binary(), "serve", "--data", self.data, *doors]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log.open("a"), text=True
        )
        ready = self.process.stdout.readline().split()
        assert ready and ready[0] == "ready", self.log.read_text()
        self.address = parse_address(dict(part.split("=") for part in ready[1:])["iso8583"])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def line(self, key):
        return Line(self.address, key, self.code)

    def takes(self, key):
        line = self.line(key)
        try:
            return line.ask(network_management("301"))["39"] == "00"
        except AssertionError:
            return False


@pytest.fixture
def restarted(tmp_path):
    switch = Restarted(tmp_path)
    yield switch
    switch.kill()


def test_exchanged_keys_survive_a_kill_and_no_exchange_is_replayed_after_it(restarted):
    """A key whose exchange was answered is the door's after any kill, the one before it counts for messages under
    way, and no message that ever gave a key gives one again: its time is kept, too."""
    key, first, said, answered = restarted.key, restarted.key, [], 0
    for round_ in range(12):
        fresh = RANDOM.randbytes(16)
        # Times ahead of the clock: those of the past would be refused for being older than the start of the door.
        change = key_change("M3T", fresh, 60 + 10 * round_)
        line = restarted.line(key)
        line.send(change)
        # Sometimes the kill comes before the answer.
        waits = round_ % 3 != 0
        if waits:
            assert line.receive()["39"] == "00"
        else:
            time.sleep(RANDOM.choice([0, 0.001, 0.004, 0.01]))
        restarted.kill()
        restarted.start()
        is_new = restarted.takes(fresh)
        assert is_new or not waits, "an exchange that was answered is lost"
        # Whoever never got the answer speaks under the key before, and asks once more.
        assert restarted.takes(key), "the key before does not count after a restart"
        if is_new:
            key, answered = fresh, answered + 1
            said.append(change)
        for earlier in said:
            line = restarted.line(key)
            line.send(earlier)
            assert insecure(line.receive()) == ("63", "1000 key_replayed")
        assert len(said) < 2 or not restarted.takes(first), "the first key counts still"
    assert answered >= 8
    assert_nowhere_clear(restarted, key)


def assert_nowhere_clear(switch, key):
    """No file of the directory, and no line of the log, has the key."""
    files = [path for path in pathlib.Path(switch.data).rglob("*") if path.is_file()]
    assert any(path.parent.name == "journal" for path in files)
    for path in [*files, switch.log]:
        content = path.read_bytes()
        for form in (key, key.hex().encode(), key.hex().upper().encode()):
            assert form not in content, path


def test_a_new_key_in_the_file_counts_in_place_of_an_exchanged_one(restarted):
    fresh, edited = RANDOM.randbytes(16), RANDOM.randbytes(16)
    change = key_change("M3T", fresh, 100)
    assert restarted.line(restarted.key).ask(change)["39"] == "00"
    restarted.kill()
    restarted.write_keys(edited)
    restarted.start()
    assert restarted.takes(edited) and not restarted.takes(fresh)
    assert "the file has a new key" in restarted.log.read_text()
    line = restarted.line(edited)
    line.send(change)
    assert insecure(line.receive()) == ("63", "1000 key_replayed")


def test_exchanged_keys_are_in_a_backup_and_outlive_another_master_key(restarted, tmp_path):
    fresh, backup = RANDOM.randbytes(16), str(tmp_path / "backup")
    change = key_change("M3T", fresh, 100)
    assert restarted.line(restarted.key).ask(change)["39"] == "00"
    run("backup", "--data", restarted.data, "--to", backup)
    restarted.kill()
    master_key, restarted.data = restarted.data + "/master.key", str(tmp_path / "restored")
    run("restore", "--from", backup, "--data", restarted.data, "--master-key", master_key)
    run("rotate-master-key", "--data", restarted.data)
    restarted.start()
    assert restarted.takes(fresh)
    line = restarted.line(fresh)
    line.send(change)
    assert insecure(line.receive()) == ("63", "1000 key_replayed")
    run("verify", "--data", backup, "--master-key", master_key)
    assert_nowhere_clear(restarted, fresh)


def run(*arguments):
    done = subprocess.run([binary(), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def with_pin(card, block):
    request = purchase(card, RANDOM.randrange(1, 500))
    if len(block) == 8:
        return request | {"52": block.hex().upper()}
    return request | {"48": request["48"] + "5232" + block.hex()}


def sealed(key, scheme, pin, pan):
    if scheme == 4:
        return psec.pinblock.encipher_pinblock_iso_4(key, pin, pan)
    encode = {0: psec.pinblock.encode_pinblock_iso_0, 3: psec.pinblock.encode_pinblock_iso_3}[scheme]
    return psec.des.encrypt_tdes_ecb(key, encode(pin, pan))


@pytest.mark.parametrize(
    ("cipher", "length", "schemes"), [("tdes", 16, (0, 3)), ("tdes", 24, (0, 3)), ("aes", 32, (4,))]
)
def test_pins_come_under_the_zone_key(tmp_path, cipher, length, schemes):
    key = RANDOM.randbytes(length)
    with zone(tmp_path, {"pin": (cipher, key)}) as switch:
        client = Client(switch.address)
        cards = [card for card in switch.cards if card["profile"] == "ordinary"][:4]
        for card in cards:
            wrong = f"{(int(card['pin']) + 1) % 10 ** len(card['pin']):0{len(card['pin'])}}"
            for scheme in schemes:
                right = client.ask(with_pin(card, sealed(key, scheme, card["pin"], card["pan"])))
                assert right["39"] == "00", right
                refused = client.ask(with_pin(card, sealed(key, scheme, wrong, card["pan"])))
                assert refused["39"] == "55", refused
            # A clear block, one under another key, one for another card.
            clear = psec.pinblock.encode_pinblock_iso_0(card["pin"], card["pan"])
            other = sealed(RANDOM.randbytes(length), schemes[0], card["pin"], card["pan"])
            refused = client.ask(with_pin(card, RANDOM.choice([clear, other])))
            assert refused["39"] == "55", refused


TAGS = {
    "9f02": 6,
    "9f03": 6,
    "9f1a": 2,
    "95": 5,
    "5f2a": 2,
    "9a": 3,
    "9c": 1,
    "9f37": 4,
    "82": 2,
    "9f36": 2,
}


def tlv(tag, value):
    return bytes.fromhex(tag) + bytes([len(value)]) + value


class Chip:
    """A chip card of an issuer's key, and the DE55 of its next purchase."""

    def __init__(self, issuer, kind, card, psn):
        self.issuer_data = bytes.fromhex("06010a03" if kind is pyemv.cvn.VisaCVN10 else "06011203")
        self.issuer_data += RANDOM.randbytes(3)
        self.kind, self.psn = kind, psn
        self.chip = kind(issuer, issuer, issuer, card["pan"], psn)
        self.values = {tag: RANDOM.randbytes(length) for tag, length in TAGS.items()}
        arguments = {f"tag_{tag}": value for tag, value in self.values.items()}
        if kind is pyemv.cvn.VisaCVN10:
            self.arqc = self.chip.generate_ac(**arguments, cvr=self.issuer_data[3:7])
        else:
            self.arqc = self.chip.generate_ac(**arguments, tag_9f10=self.issuer_data)

    def data(self):
        elements = [tlv(tag, value) for tag, value in self.values.items()]
        elements += [tlv("9f10", self.issuer_data), tlv("9f26", self.arqc)]
        elements += [tlv("5f34", bytes.fromhex(self.psn))]
        RANDOM.shuffle(elements)
        return b"".join(elements)

    def answer(self, code, is_approved):
        if self.kind is pyemv.cvn.VisaCVN10:
            code = code.encode()
            return tlv("91", self.chip.generate_arpc(self.arqc, code) + code)
        update = bytes([0, 0x80 if is_approved else 0, 0, 0])
        arpc = self.chip.generate_arpc(self.arqc, self.values["9f36"], update)
        return tlv("91", arpc + update)


@pytest.mark.parametrize("kind", [pyemv.cvn.VisaCVN10, pyemv.cvn.VisaCVN18])
def test_cryptograms_are_checked_and_answered(tmp_path, kind):
    issuer = RANDOM.randbytes(16)
    with zone(tmp_path, {"issuer": ("tdes", issuer)}) as switch:
        client = Client(switch.address)
        ordinary = [card for card in switch.cards if card["profile"] == "ordinary"]
        for card in ordinary[:6]:
            chip = Chip(issuer, kind, card, f"{RANDOM.randrange(100):02}")
            request = purchase(card, RANDOM.randrange(1, 500)) | {"55": chip.data().hex().upper()}
            approval = client.ask(request)
            assert approval["39"] == "00", approval
            assert bytes.fromhex(approval["55"]) == chip.answer("00", True)
            # The cryptogram of another purchase, and of another issuer's card.
            for other in [chip, Chip(RANDOM.randbytes(16), kind, card, "00")]:
                other.values["9f02"] = RANDOM.randbytes(6)
                request = purchase(card, 100) | {"55": other.data().hex().upper()}
                refused = client.ask(request)
                assert (refused["39"], refused["44"].split()[0]) == ("82", "1303"), refused
                assert "55" not in refused
        # A decline is answered to the chip as well.
        card = switch.card("suspended")
        chip = Chip(issuer, kind, card, "01")
        declined = client.ask(purchase(card, 100) | {"55": chip.data().hex().upper()})
        assert declined["39"] == "62"
        assert bytes.fromhex(declined["55"]) == chip.answer("62", False)


def test_chip_data_that_is_cut_is_named_and_harms_nobody(tmp_path):
    with zone(tmp_path, {"issuer": ("tdes", RANDOM.randbytes(16))}) as switch:
        client, card = Client(switch.address), switch.card("ordinary")
        data = Chip(RANDOM.randbytes(16), pyemv.cvn.VisaCVN18, card, "00").data()
        whole = bytes.fromhex("9f2608") + RANDOM.randbytes(8)
        for cut in [data[: len(data) - 1], b"\x9f", b"\x9f\x26\x84", whole]:
            answer = client.ask(purchase(card, 100) | {"55": cut.hex().upper()})
            assert (answer["39"], answer["44"]) == ("30", "1000 invalid_de55"), answer
        # Without a cryptogram there is nothing to check.
        answer = client.ask(purchase(card, 100) | {"55": "9F3602" + "0001"})
        assert answer["39"] == "00", answer


def printed(file, *arguments):
    ran = subprocess.run(
        [binary(), "zone-keys", str(file), *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    return {line.split()[0]: line.split()[1:] for line in ran.stdout.splitlines()}


@pytest.mark.parametrize("version", ["B", "D"])
def test_key_blocks_open_at_either_end(tmp_path, version):
    file = tmp_path / "zone.keys"
    for _ in range(10):
        cipher, lengths = ("tdes", (16, 24)) if version == "B" else ("aes", (16, 24, 32))
        master = RANDOM.randbytes(RANDOM.choice(lengths))
        names = {"mac": "M3TC", "pin": RANDOM.choice(["P0TD", "P0AB"]), "issuer": "E0TX"}
        keys = {
            name: RANDOM.randbytes(32 if use[2] == "A" else 16) for name, use in names.items()
        }
        text = f'master = {{ {cipher} = "{master.hex()}" }}\n'
        for name, use in names.items():
            extra = RANDOM.choice(["0000", "0100KS1800604B120F9292800000"])
            block = psec.tr31.wrap(master, f"{version}0000{use}00E{extra}", keys[name])
            text += f'{name} = {{ tr31 = "{block}" }}\n'
        file.unlink(missing_ok=True)
        file.touch(0o600)
        file.write_text(text)
        shown = printed(file)
        for name, use in names.items():
            check, block = shown[name]
            header, key = psec.tr31.unwrap(master, block)
            assert key == keys[name]
            assert header.key_usage + header.algorithm == use[:3]
            if use[2] == "T":
                assert check == psec.des.generate_kcv(key, 3).hex()


def test_a_file_that_others_may_read_is_refused(tmp_path):
    file = tmp_path / "zone.keys"
    file.write_text(f'master = {{ tdes = "{MASTER.hex()}" }}\n')
    file.chmod(0o644)
    ran = subprocess.run([binary(), "zone-keys", str(file)], capture_output=True, text=True)
    assert ran.returncode == 1 and f"`{file}`: others may read it" in ran.stderr, ran.stderr
    assert MASTER.hex() not in ran.stderr
