-- The same authorization as cardswitch makes, by Redis: one script.
--
-- It takes a batch, a batch of one included, because a client may have several purchases to send
-- at a time; they are decided strictly in order. Records are packed, so that a card costs one
-- command to read and one to write, and the append-only file stays small.
--
--   account      ledger, credit limit, debits in transit, held, last transaction
--   card:<hash>  the terms, which an authorization does not change
--   used:<hash>  what it changes
--   txn:<n>      a transaction: verdict, hold and merchant
--   key:<key>    the transaction of a network key, for 24 hours
--
-- KEYS[1] is the account; the other names are made here, which one node allows.
-- ARGV: today's local date (days since 1970), then for each purchase: network key, hash, amount,
-- category, cash, expiry, CVV, PIN and ZIP (8 bytes each, or empty), merchant and trace (packed).
-- Answers: for each purchase its transaction, response code, failed rules, allowance balance.
-- Numbers are doubles: amounts and balances stay below 2^53.

local FIELDS = 10
local ACCOUNT = '>i8i8i8i8i8'
-- account, expires on, expiry, PIN and ZIP (8 bytes each, zeros without), budget, daily limit, transaction limit, starts, ends,
-- interval, single use, then the scope as two bytes a category
local TERMS = '>i4i4i4c8c8i8i8i8i8i8BB'
local TERMS_BYTES = 70
-- state, suspension, pin failures, failures, since, spent, day spent, period, started on, day
local USED = '>BBBBi8i8i8i4i4i4'
-- failed rules, response code, state, at, requested, held, period, day, expires, balance, card
local VERDICT = '>I4I2Bi8i8i8i4i4i8i8'
local NONE = -1
local ABSENT = ('\0'):rep(8)
local HOUR, DAY = 3600000000, 86400000000
local AMOUNT_MAX = 1e16

local call, pack, unpack = redis.call, struct.pack, struct.unpack
local band, tonumber = bit.band, tonumber

-- The code of each rule. A name in braces is the bit of a rule: see `rules.rs`.
local CODES = { {codes} }

local function response_code(failed)
    if failed == 0 then return 0 end
    local rule = 0
    while band(failed, 2 ^ rule) == 0 do rule = rule + 1 end
    return CODES[rule]
end

-- Year and month of a day number, and its number of the month's first day.
local function month_of(day)
    local z = day + 719468
    local era = math.floor(z / 146097)
    local doe = z - era * 146097
    local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524)
        - math.floor(doe / 146096)) / 365)
    local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
    local mp = math.floor((5 * doy + 2) / 153)
    local first = day - (doy - math.floor((153 * mp + 2) / 5))
    return mp < 10 and mp + 3 or mp - 9, first
end

-- The first day of the period that holds `day`; intervals 1 to 5: day, week, month, quarter, year.
local function period_start(interval, day)
    if interval == 1 then return day end
    if interval == 2 then return day - (day + 3) % 7 end
    local month, first = month_of(day)
    local back = interval == 3 and 0 or interval == 4 and (month - 1) % 3 or month - 1
    for _ = 1, back do
        month, first = month_of(first - 1)
    end
    return first
end

local function is_in_scope(terms, mcc)
    if #terms == TERMS_BYTES then return true end
    for at = TERMS_BYTES + 1, #terms, 2 do
        if unpack('>I2', terms, at) == mcc then return true end
    end
    return false
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local today = tonumber(ARGV[1])
local ledger, credit_limit, debits, held, last = unpack(ACCOUNT, call('GET', KEYS[1]))
local answers = {}

local function decide(at)
    local key, hash = ARGV[at], ARGV[at + 1]
    local known = call('GET', 'key:' .. key)
    if known then
        local failed, code, _, _, _, _, _, _, _, balance = unpack(VERDICT, call('GET', 'txn:' .. known))
        return { tonumber(known), code, failed, balance }
    end
    local records = call('MGET', 'card:' .. hash, 'used:' .. hash)
    local terms, used = records[1], records[2]
    if not terms then return { 0, 1000, 0, 0 } end

    local _, expires_on, expiry, pin, zip, budget, daily_limit, transaction_limit, starts, ends,
        interval, single_use = unpack(TERMS, terms)
    local state, suspension, pin_failures, failures, since, spent, day_spent, period, started, day =
        unpack(USED, used)
    if today > day then
        day, day_spent = today, 0
        if interval > 0 then
            local start = period_start(interval, today)
            if start > started then
                started, period, spent = start, period + 1, 0
            end
        end
    end

    local amount, mcc, is_cash = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), ARGV[at + 4]
    local shown_expiry, cvv = tonumber(ARGV[at + 5]), ARGV[at + 6]
    local shown_pin, shown_zip = ARGV[at + 7], ARGV[at + 8]
    local failed = 0
    if state == 3 then failed = failed + {card_terminated} end
    if amount < 0 or amount > AMOUNT_MAX then failed = failed + {out_of_bounds} end
    if state == 0 then failed = failed + {card_unactivated} end
    local is_ended = ends ~= NONE and now > ends
    if state == 2 and not (suspension == 3 and is_ended) then failed = failed + {card_suspended} end
    if today > expires_on then failed = failed + {card_expired} end
    -- While wrong credentials lock a card's, none is compared.
    local is_locked = failures >= 5 and now < since + HOUR
    local pin_wrong = false
    if is_locked then
        if shown_expiry ~= NONE or shown_pin ~= '' or cvv ~= '' or shown_zip ~= '' then
            failed = failed + {credentials_locked}
        end
    else
        if shown_expiry ~= NONE and shown_expiry ~= expiry then failed = failed + {expiration_differs} end
        pin_wrong = shown_pin ~= ''
            and (pin_failures >= 3 or pin == ABSENT or shown_pin ~= pin)
        if pin_wrong then failed = failed + {pin_wrong} end
        if cvv == '0' then failed = failed + {cvv_wrong} end
        if shown_zip ~= '' and zip ~= ABSENT and shown_zip ~= zip then failed = failed + {zip_differs} end
    end
    if is_cash == '1' or mcc == 6010 or mcc == 6011 then failed = failed + {cash_withdrawal} end
    if starts ~= NONE and now < starts then failed = failed + {before_start_time} end
    if is_ended then failed = failed + {after_end_time} end
    if not is_in_scope(terms, mcc) then failed = failed + {out_of_scope} end
    if transaction_limit ~= NONE and amount > transaction_limit then failed = failed + {transaction_limit} end
    if daily_limit ~= NONE and amount > daily_limit - day_spent then failed = failed + {daily_limit} end
    if amount > budget - spent then failed = failed + {allowance_balance} end
    if amount > ledger + credit_limit - debits - held then failed = failed + {available_credit} end

    local wrong = band(failed, {credentials})
    if not is_locked and shown_pin ~= '' and pin_failures < 3 then
        pin_failures = pin_wrong and pin_failures + 1 or 0
    elseif pin_wrong then
        wrong = wrong - {pin_wrong}
    end
    if wrong ~= 0 then
        if now < since + HOUR then
            failures = math.min(failures + 1, 255)
        else
            failures, since = 1, now
        end
    end
    local txn_state, taken, expires = 2, 0, 0
    if failed == 0 then
        txn_state = 3
        if amount > 0 then
            txn_state, taken = 0, amount
            local is_long = mcc >= 3351 and mcc <= 3999 or mcc == 7011 or mcc == 7012 or mcc == 7032 or mcc == 7033
                or mcc == 7512 or mcc == 7513 or mcc == 7519
            expires = now + DAY * (is_long and 30 or 7)
            spent, day_spent, held = spent + amount, day_spent + amount, held + amount
            if single_use == 1 then state, suspension = 2, 2 end
        end
    end

    last = last + 1
    local code, balance = response_code(failed), budget - spent
    call('SET', 'used:' .. hash, pack(USED, state, suspension, pin_failures, failures, since,
        spent, day_spent, period, started, day))
    call('SET', 'txn:' .. last, pack(VERDICT, failed, code, txn_state, now, amount, taken, period,
        day, expires, balance) .. hash .. ARGV[at + 9])
    call('SET', 'key:' .. key, last, 'EX', 86400)
    return { last, code, failed, balance }
end

for at = 2, #ARGV, FIELDS do
    answers[#answers + 1] = decide(at)
end
call('SET', KEYS[1], pack(ACCOUNT, ledger, credit_limit, debits, held, last))
return answers
