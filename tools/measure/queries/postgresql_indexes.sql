ALTER TABLE card_transaction ADD PRIMARY KEY (seq);
CREATE UNIQUE INDEX ON card_transaction (id);
CREATE INDEX ON card_transaction (company, authorized_at, seq);
CREATE INDEX ON card_transaction (card, authorized_at, seq);
CREATE INDEX ON card_transaction (member, authorized_at, seq);
CREATE INDEX ON card_transaction (category, authorized_at, seq) WHERE category IS NOT NULL;
CREATE INDEX ON card_transaction (company, state, authorized_at, seq);
-- 2 is declined, and 2 a verification.
CREATE INDEX ON card_transaction (company, authorized_at, seq) WHERE state <> 2;
CREATE INDEX ON card_transaction (company, authorized_at, seq) WHERE kind <> 2;
