// The codes of the harness are those of the standard.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { totpCode } from './totp.js';

// RFC 6238, appendix B (SHA-1): the seed is the ASCII text 12345678901234567890.
const SEED = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ';

test('codes are those of RFC 6238', () => {
  const rows = [[59, '287082'], [1111111109, '081804'], [1234567890, '005924'], [20000000000, '353130']];
  for (const [time, code] of rows) assert.equal(totpCode(SEED, 0, time), code);
  assert.equal(totpCode(SEED, 1, 29), totpCode(SEED, 0, 59));
});
