-- The same authorization as cardswitch makes, by PostgreSQL: its tables and its one function.
--
-- `authorize` takes a batch, a batch of one included: what a gateway that waits for a commit has
-- gathered meanwhile. Cards are locked in one order, their rules are evaluated in plain PL/pgSQL,
-- and what changes is written by three statements for the whole batch. The account, which every
-- purchase of a company shares, is locked last and so for no longer than the commit takes.
--
-- What is left out, to PostgreSQL's advantage, stands in README.md.

CREATE TABLE account (
    id                integer PRIMARY KEY,
    zone              text    NOT NULL,
    ledger_balance    bigint  NOT NULL,
    credit_limit      bigint  NOT NULL,
    debits_in_transit bigint  NOT NULL DEFAULT 0,
    held              bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

-- Half of each page stays free, so that a new version of a card needs no new index entry (HOT).
CREATE TABLE card (
    pan_hash          bigint     PRIMARY KEY,
    account_id        integer    NOT NULL,
    expires_on        date       NOT NULL,
    expiry            integer    NOT NULL, -- YYMM
    pin               bigint,
    zip               text,
    budget            bigint     NOT NULL,
    daily_limit       bigint,
    transaction_limit bigint,
    starts_at         timestamptz,
    ends_at           timestamptz,
    scope             smallint[] NOT NULL, -- groups are spelled out when a card is written
    period_unit       text,                -- as date_trunc names it; null: never by itself
    single_use        boolean    NOT NULL,
    -- What an authorization changes.
    state             smallint   NOT NULL, -- 0 unactivated, 1 active, 2 suspended, 3 terminated
    suspension        smallint   NOT NULL DEFAULT 0, -- 1 manual, 2 single use, 3 end time
    spent             bigint     NOT NULL DEFAULT 0,
    day_spent         bigint     NOT NULL DEFAULT 0,
    period            integer    NOT NULL DEFAULT 0,
    period_started_on date       NOT NULL DEFAULT '1970-01-01',
    day               date       NOT NULL DEFAULT '1970-01-01',
    pin_failures      smallint   NOT NULL DEFAULT 0,
    failure_count     smallint   NOT NULL DEFAULT 0,
    failures_since    timestamptz NOT NULL DEFAULT '1970-01-01Z'
) WITH (fillfactor = 50);

CREATE SEQUENCE transaction_id CACHE 1000;

CREATE TABLE card_transaction (
    id                bigint      PRIMARY KEY,
    authorized_at     timestamptz NOT NULL,
    network_key       uuid        NOT NULL,
    pan_hash          bigint      NOT NULL,
    state             smallint    NOT NULL, -- 0 pending, 1 completed, 2 declined, 3 canceled
    response_code     smallint    NOT NULL,
    failed_rules      integer     NOT NULL,
    requested         bigint      NOT NULL,
    held              bigint      NOT NULL,
    held_period       integer     NOT NULL,
    held_day          date        NOT NULL,
    hold_expires_at   timestamptz,
    allowance_balance bigint      NOT NULL, -- as it was answered
    mcc               smallint,
    mid               bigint      NOT NULL,
    card_acceptor_id  text        NOT NULL,
    merchant_name     text        NOT NULL,
    merchant_city     text        NOT NULL,
    merchant_state    text        NOT NULL,
    merchant_country  text        NOT NULL,
    merchant_zip      text        NOT NULL,
    stan              text        NOT NULL,
    rrn               text        NOT NULL,
    acquirer          text        NOT NULL,
    terminal          text        NOT NULL,
    transmission_time text        NOT NULL
);
-- Not unique: a key may come again after a day. Within it, the lock on the card keeps it single.
CREATE INDEX card_transaction_network_key ON card_transaction (network_key);

-- A name in braces is the bit of a rule in `failed_rules`: see `rules.rs`.
CREATE FUNCTION authorize(
    p_account           integer,
    p_account_first     boolean, -- lock the account at once: for a batch that ran out of funds
    p_key               uuid[],
    p_pan_hash          bigint[],
    p_amount            bigint[],
    p_mcc               smallint[],
    p_is_cash           boolean[],
    p_expiry            integer[],
    p_cvv_matches       boolean[],
    p_pin               bigint[],
    p_zip               text[],
    p_mid               bigint[],
    p_card_acceptor_id  text[],
    p_merchant_name     text[],
    p_merchant_city     text[],
    p_merchant_state    text[],
    p_merchant_country  text[],
    p_merchant_zip      text[],
    p_stan              text[],
    p_rrn               text[],
    p_acquirer          text[],
    p_terminal          text[],
    p_transmission_time text[],
    OUT o_id            bigint[],
    OUT o_code          smallint[],
    OUT o_failed        integer[],
    OUT o_balance       bigint[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_now       timestamptz := clock_timestamp();
    v_today     date;
    v_funds     bigint;
    v_taken     bigint := 0;
    v_count     integer := cardinality(p_key);
    v_state     smallint[] := array_fill(NULL::smallint, ARRAY[v_count]); -- null: nothing to insert
    v_period    integer[]  := array_fill(NULL::integer, ARRAY[v_count]);
    m           record; -- a message, its card and its first answer if it is a repeat
    c           card;   -- the card at hand, as the messages on it change it
    v_changed   card[] := '{}'; -- one place each
    v_count_changed integer := 0;
    v_keys      uuid[]; -- the messages on this card so far, and their places
    v_places    integer[];
    v_first     integer;
    v_failed    integer;
    v_wrong     integer;
    v_code      smallint;
    v_start     date;
    v_locked    boolean;
BEGIN
    o_id      := array_fill(NULL::bigint, ARRAY[v_count]);
    o_code    := array_fill(1000::smallint, ARRAY[v_count]);
    o_failed  := array_fill(0, ARRAY[v_count]);
    o_balance := array_fill(0::bigint, ARRAY[v_count]);

    IF p_account_first THEN
        PERFORM 1 FROM account WHERE id = p_account FOR NO KEY UPDATE;
    END IF;
    PERFORM 1 FROM card WHERE pan_hash = ANY (p_pan_hash) ORDER BY pan_hash FOR NO KEY UPDATE;
    SELECT ledger_balance + credit_limit - debits_in_transit - held,
           (v_now AT TIME ZONE zone)::date
      INTO v_funds, v_today
      FROM account WHERE id = p_account;

    FOR m IN
        SELECT p.*, card.pan_hash, card AS found,
               t.id AS known_id, t.response_code AS known_code,
               t.failed_rules AS known_failed, t.allowance_balance AS known_balance
          FROM unnest(p_key, p_pan_hash, p_amount, p_mcc, p_is_cash, p_expiry, p_cvv_matches,
                      p_pin, p_zip)
               WITH ORDINALITY AS p(key, of_pan_hash, amount, mcc, is_cash, shown_expiry,
                                    cvv_matches, shown_pin, shown_zip, place)
          LEFT JOIN card ON card.pan_hash = p.of_pan_hash AND card.account_id = p_account
          LEFT JOIN card_transaction t
                 ON t.network_key = p.key AND t.authorized_at > v_now - interval '24 hours'
         ORDER BY p.of_pan_hash, p.place
    LOOP
        CONTINUE WHEN m.pan_hash IS NULL; -- an unknown card: 1000, and no transaction
        IF m.known_id IS NOT NULL THEN
            o_id[m.place]      := m.known_id;
            o_code[m.place]    := m.known_code;
            o_failed[m.place]  := m.known_failed;
            o_balance[m.place] := m.known_balance;
            CONTINUE;
        END IF;

        IF m.pan_hash IS DISTINCT FROM c.pan_hash THEN
            c        := m.found;
            v_keys   := '{}';
            v_places := '{}';
            v_count_changed := v_count_changed + 1;
            IF v_today > c.day THEN
                c.day       := v_today;
                c.day_spent := 0;
                v_start     := date_trunc(c.period_unit, v_today);
                IF v_start > c.period_started_on THEN -- never where there is no unit
                    c.period_started_on := v_start;
                    c.period            := c.period + 1;
                    c.spent             := 0;
                END IF;
            END IF;
        ELSE
            v_first := v_places[array_position(v_keys, m.key)];
            IF v_first IS NOT NULL THEN
                o_id[m.place]      := o_id[v_first];
                o_code[m.place]    := o_code[v_first];
                o_failed[m.place]  := o_failed[v_first];
                o_balance[m.place] := o_balance[v_first];
                CONTINUE;
            END IF;
        END IF;
        v_keys   := v_keys || m.key;
        v_places := v_places || m.place::integer;

        -- While wrong credentials lock a card's, none is compared.
        v_locked := c.failure_count >= 5 AND v_now < c.failures_since + interval '1 hour';
        v_failed :=
              (c.state = 3)::int * {card_terminated}
            | ((m.amount < 0 OR m.amount > 10000000000000000)::int * {out_of_bounds})
            | ((c.state = 0)::int * {card_unactivated})
            | ((c.state = 2 AND NOT (c.suspension = 3 AND v_now > c.ends_at IS TRUE))::int * {card_suspended})
            | ((v_today > c.expires_on)::int * {card_expired})
            | ((v_locked AND (m.shown_expiry IS NOT NULL OR m.shown_pin IS NOT NULL
               OR m.cvv_matches IS NOT NULL OR m.shown_zip IS NOT NULL))::int * {credentials_locked})
            | ((NOT v_locked AND m.shown_expiry <> c.expiry IS TRUE)::int * {expiration_differs})
            | ((NOT v_locked AND m.shown_pin IS NOT NULL
               AND (c.pin_failures >= 3 OR m.shown_pin IS DISTINCT FROM c.pin))::int * {pin_wrong})
            | ((NOT v_locked AND m.cvv_matches IS FALSE)::int * {cvv_wrong})
            | ((NOT v_locked AND m.shown_zip <> c.zip IS TRUE)::int * {zip_differs})
            | ((m.is_cash OR m.mcc IN (6010, 6011) IS TRUE)::int * {cash_withdrawal})
            | ((v_now < c.starts_at IS TRUE)::int * {before_start_time})
            | ((v_now > c.ends_at IS TRUE)::int * {after_end_time})
            | ((cardinality(c.scope) > 0 AND m.mcc = ANY (c.scope) IS NOT TRUE)::int * {out_of_scope})
            | ((m.amount > c.transaction_limit IS TRUE)::int * {transaction_limit})
            | ((m.amount > c.daily_limit - c.day_spent IS TRUE)::int * {daily_limit})
            | ((m.amount > c.budget - c.spent)::int * {allowance_balance})
            | ((m.amount > v_funds)::int * {available_credit});
        v_code := CASE
            WHEN v_failed = 0            THEN 0
            {codes}
        END;

        v_wrong := v_failed & {credentials};
        IF NOT v_locked AND m.shown_pin IS NOT NULL AND c.pin_failures < 3 THEN
            c.pin_failures := CASE WHEN v_failed & {pin_wrong} <> 0 THEN c.pin_failures + 1 ELSE 0 END;
        ELSE
            v_wrong := v_wrong & ~{pin_wrong};
        END IF;
        IF v_wrong <> 0 THEN
            IF v_now < c.failures_since + interval '1 hour' THEN
                c.failure_count := least(c.failure_count + 1, 255);
            ELSE
                c.failure_count := 1;
                c.failures_since := v_now;
            END IF;
        END IF;
        IF v_failed <> 0 THEN
            v_state[m.place] := 2;
        ELSIF m.amount = 0 THEN
            v_state[m.place] := 3;
        ELSE
            v_state[m.place] := 0;
            c.spent     := c.spent + m.amount;
            c.day_spent := c.day_spent + m.amount;
            v_funds     := v_funds - m.amount;
            v_taken     := v_taken + m.amount;
            IF c.single_use THEN
                c.state      := 2;
                c.suspension := 2;
            END IF;
        END IF;

        v_changed[v_count_changed] := c;
        v_period[m.place]  := c.period;
        o_id[m.place]      := nextval('transaction_id');
        o_code[m.place]    := v_code;
        o_failed[m.place]  := v_failed;
        o_balance[m.place] := c.budget - c.spent;
    END LOOP;

    INSERT INTO card_transaction
    SELECT p.id, v_now, p.key, p.pan_hash, p.state, p.code, p.failed, p.amount,
           CASE WHEN p.state = 0 THEN p.amount ELSE 0 END, p.period, v_today,
           CASE WHEN p.state = 0 THEN v_now + CASE
                WHEN p.mcc BETWEEN 3351 AND 3999 OR p.mcc IN (7011, 7012, 7032, 7033, 7512, 7513, 7519)
                THEN interval '30 days' ELSE interval '7 days' END END,
           p.balance, p.mcc, p.mid, p.card_acceptor_id, p.merchant_name, p.merchant_city,
           p.merchant_state, p.merchant_country, p.merchant_zip, p.stan, p.rrn, p.acquirer,
           p.terminal, p.transmission_time
      FROM unnest(o_id, p_key, p_pan_hash, v_state, o_code, o_failed, p_amount, v_period,
                  o_balance, p_mcc, p_mid, p_card_acceptor_id, p_merchant_name, p_merchant_city,
                  p_merchant_state, p_merchant_country, p_merchant_zip, p_stan, p_rrn,
                  p_acquirer, p_terminal, p_transmission_time)
           AS p(id, key, pan_hash, state, code, failed, amount, period, balance, mcc, mid,
                card_acceptor_id, merchant_name, merchant_city, merchant_state,
                merchant_country, merchant_zip, stan, rrn, acquirer, terminal,
                transmission_time)
     WHERE p.state IS NOT NULL;

    UPDATE card
       SET state = u.state, suspension = u.suspension, spent = u.spent,
           day_spent = u.day_spent, period = u.period, period_started_on = u.period_started_on,
           day = u.day, pin_failures = u.pin_failures, failure_count = u.failure_count,
           failures_since = u.failures_since
      FROM unnest(v_changed) AS u
     WHERE card.pan_hash = u.pan_hash;

    IF v_taken > 0 THEN
        -- The funds were read without a lock: others may have taken them meanwhile.
        UPDATE account SET held = held + v_taken
         WHERE id = p_account
           AND ledger_balance + credit_limit - debits_in_transit - held >= v_taken;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the funds were taken meanwhile' USING ERRCODE = '40001';
        END IF;
    END IF;
END
$$;
