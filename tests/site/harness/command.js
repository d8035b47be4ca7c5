// Runs `cardswitch` commands as strangers do: the binary, its arguments, what it prints.

import { spawn } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

/** Where builds and what tests leave behind go. */
export const TARGET = path.resolve(ROOT, process.env.CARGO_TARGET_DIR ?? 'target');

/** `CARDSWITCH_BIN`, else what `cargo build` makes. */
function binary() {
  return process.env.CARDSWITCH_BIN ?? path.join(TARGET, 'debug', 'cardswitch');
}

/** Whoever runs the suite may have settings of their own: they are no part of it. */
function environment() {
  const entries = Object.entries(process.env);
  return Object.fromEntries(entries.filter(([name]) => !name.startsWith('CARDSWITCH_')));
}

/** Starts `cardswitch` with `options` as `spawn` takes them. */
export function start(options, ...args) {
  return spawn(binary(), args, { env: environment(), ...options });
}

/** Runs `cardswitch` to its end and returns what it printed. A failure is an error. */
export async function run(args, { input = '' } = {}) {
  const child = start({ stdio: 'pipe' }, ...args);
  const ended = new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  const printed = Promise.all([textOf(child.stdout), textOf(child.stderr)]);
  // A command that reads nothing may be gone before this arrives.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const code = await ended;
  const [stdout, stderr] = await printed;
  if (code !== 0) throw new Error(`cardswitch ${args.join(' ')} ended with ${code}: ${stderr}`);
  return stdout;
}

/** As `run`, and parses the JSON object on the last line. */
export async function runJson(args, options) {
  const lines = (await run(args, options)).trim().split('\n');
  return JSON.parse(lines.at(-1));
}

async function textOf(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}
