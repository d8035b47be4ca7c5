// One-time codes as authenticator apps make them (RFC 6238: SHA-1, six digits, thirty seconds).

import { createHmac } from 'node:crypto';

const STEP_S = 30;
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** The code of the step that is `steps` from now, for a seed in base 32. */
export function totpCode(seed, steps = 0, nowS = Date.now() / 1000) {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(nowS / STEP_S) + steps));
  const digest = createHmac('sha1', parseBase32(seed)).update(counter).digest();
  const number = digest.readUInt32BE(digest.at(-1) & 0x0f) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, '0');
}

/**
 * The code after that of now. The switch takes codes one step either side, so this one lasts for 30
 * to 60 s: however slow the machine, no boundary between two steps makes it late.
 */
export function nextTotpCode(seed) {
  return totpCode(seed, 1);
}

function parseBase32(text) {
  const bits = [...text.replace(/[\s=]/g, '')].map((letter) => {
    const value = ALPHABET.indexOf(letter.toUpperCase());
    if (value < 0) throw new Error(`\`${letter}\` is no letter of base 32`);
    return value.toString(2).padStart(5, '0');
  });
  const bytes = bits.join('').match(/.{8}/g) ?? [];
  return Buffer.from(bytes.map((byte) => parseInt(byte, 2)));
}
