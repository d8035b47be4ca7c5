-- The same transactions, as an expert would lay them out for these lists: creation order is
-- (authorized_at, seq), so every filter's index ends in it, and counting is an index-only scan.

CREATE TABLE card_transaction (
    seq           bigint      NOT NULL,
    id            uuid        NOT NULL,
    company       integer     NOT NULL,
    card          integer     NOT NULL,
    member        integer     NOT NULL,
    kind          smallint    NOT NULL,
    state         smallint    NOT NULL,
    amount        bigint      NOT NULL,
    authorized_at timestamptz NOT NULL,
    category      integer,
    mid           bigint      NOT NULL,
    mcc           smallint    NOT NULL,
    merchant      text        NOT NULL,
    city          text        NOT NULL,
    region        text        NOT NULL,
    country       text        NOT NULL,
    zip           text        NOT NULL
);
