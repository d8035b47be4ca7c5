-- Tables of `cardswitch export`, in the schema `cardswitch`. They are made where they are missing.
-- Rows of a page of the event feed and the place behind it are written in one database transaction.

-- One export at a time makes them.
SELECT pg_advisory_xact_lock(hashtext('cardswitch export'));

CREATE SCHEMA IF NOT EXISTS cardswitch;

-- How far the events of each company are written.
CREATE TABLE IF NOT EXISTS cardswitch.progress (
    company_id uuid PRIMARY KEY,
    -- Of its amounts (ISO 4217).
    currency text NOT NULL,
    -- Of its days and posting dates (IANA).
    time_zone text NOT NULL,
    -- Place in the event feed behind the last event written; null before the first.
    event_cursor text,
    -- The switch's newest record when the newest row was read (`cardswitch-seq`).
    seq bigint NOT NULL DEFAULT 0,
    -- When the last event written happened.
    event_at timestamptz,
    written_at timestamptz NOT NULL DEFAULT now()
);

-- Each transaction as it is now.
CREATE TABLE IF NOT EXISTS cardswitch.transactions (
    id uuid PRIMARY KEY,
    company_id uuid NOT NULL,
    -- That of its last event written. Rises with each event of a transaction.
    sequence bigint NOT NULL,
    state text NOT NULL,              -- pending, completed, declined, canceled
    kind text NOT NULL,               -- purchase, verification, cash, refund, bank_transfer
    amount numeric NOT NULL,          -- in the company's currency, all its postings together; purchases are negative
    foreign_amount numeric,           -- as authorized, where that was in another currency: no rate follows from the two
    foreign_currency text,
    response_code integer,            -- of declined ones
    failed_rules text[] NOT NULL,     -- the deciding one first
    flags text[] NOT NULL,
    card_id uuid,
    member_id uuid,
    category_id uuid,
    department_id uuid,
    label_id uuid,
    location_id uuid,
    requisition_id uuid,
    refund_of uuid,                   -- the purchase it gives money back for
    has_receipt boolean NOT NULL,
    note text NOT NULL,
    merchant_mid bigint,
    mcc integer,
    merchant_name text,
    merchant_city text,
    merchant_state text,
    merchant_zip text,
    merchant_country text,
    authorized_at timestamptz NOT NULL,
    posted_at timestamptz             -- of the first posting
);

-- Each statement line: what was posted to an account, for ever as it was posted. Their sum is the account's ledger balance.
CREATE TABLE IF NOT EXISTS cardswitch.statement_lines (
    company_id uuid NOT NULL,
    account_id uuid NOT NULL,
    number bigint NOT NULL,           -- rises by one in an account
    id uuid NOT NULL,
    transaction_id uuid NOT NULL,     -- several lines may share one
    amount numeric NOT NULL,          -- in the company's currency; purchases are negative
    description text NOT NULL,
    card_id uuid,
    member_id uuid,
    mcc integer,                      -- of the merchant of its presentment
    merchant_name text,
    merchant_country text,
    posted_on date NOT NULL,          -- in the company's zone
    posted_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, number)
);

-- What was posted in a month, and of a transaction.
CREATE INDEX IF NOT EXISTS statement_lines_by_day
    ON cardswitch.statement_lines (company_id, posted_on);
CREATE INDEX IF NOT EXISTS statement_lines_by_transaction
    ON cardswitch.statement_lines (transaction_id);

-- Spending of a time, of a card, of a member; what was posted first in a month. A purchase may be posted in several
-- months: only statement lines add up to those.
CREATE INDEX IF NOT EXISTS transactions_by_time
    ON cardswitch.transactions (company_id, authorized_at);
CREATE INDEX IF NOT EXISTS transactions_by_card
    ON cardswitch.transactions (card_id, authorized_at);
CREATE INDEX IF NOT EXISTS transactions_by_member
    ON cardswitch.transactions (member_id, authorized_at) WHERE member_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS transactions_by_posting
    ON cardswitch.transactions (company_id, posted_at) WHERE posted_at IS NOT NULL;
