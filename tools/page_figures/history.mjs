// A switch with a past: a data directory, transactions of its last months from the feed and as many of
// today as are wanted from the load generator, people who look at them, and the load that it is put under.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

import { run, runJson, start } from '../../tests/site/harness/command.js';

/** How long purchases are made, and what they may take to be settled: virtual time ends before now. */
const DAYS = 60;
const SETTLING_DAYS = 18;
const DAY_MS = 24 * 3600 * 1000;
const PASSWORD = 'a heron walks at low tide';
/** As many streams as one user may have. */
const OVERVIEWS_A_USER = 6;
/** How purchases of today are made. */
const FILLING_IN_FLIGHT = 256;
const FILLING_SECONDS = 2;
const BALANCE = '90000000000';

const timeOf = (daysAgo) => new Date(Date.now() - daysAgo * DAY_MS).toISOString();

/** A switch that serves what a feed has left. */
export class History {
  #directory;
  #child;
  #load;

  /** Makes the directory, feeds it in virtual time, serves it in real time and loads what lacks. */
  static async make({ transactions, fed, cards, overviews, binaries }, say) {
    const history = new History();
    history.#directory = await mkdtemp(path.join(tmpdir(), 'cardswitch-pages-'));
    history.#load = path.join(binaries, 'load');
    history.data = path.join(history.#directory, 'data');
    history.cards = path.join(history.#directory, 'cards.jsonl');
    const made = ['--cards', String(cards), '--cards-out', history.cards, '--time', timeOf(DAYS + SETTLING_DAYS + 1)];
    const args = ['init', '--data', history.data, '--opening-balance', BALANCE, '--json', ...made];
    history.credentials = await runJson(args);
    await history.#addViewers(Math.ceil(overviews / OVERVIEWS_A_USER));
    say(`feeding ${Math.min(fed, transactions)} purchases of ${DAYS} days`);
    await history.#feed(Math.min(fed, transactions));
    await history.#serve('system');
    history.known = await history.#find();
    await history.#fill(transactions, say);
    return history;
  }

  get administrator() {
    return { email: this.credentials.admin_email, password: this.credentials.admin_password };
  }

  async #addViewers(count) {
    this.viewers = [];
    for (let number = 0; number < count; number += 1) {
      const email = `viewer${number}@example.com`;
      const args = ['--data', this.data, '--company', this.credentials.company_id, '--email', email];
      const named = ['--first-name', 'Ada', '--last-name', 'Lovelace', '--role', 'accountant'];
      await run(['user', 'add', ...args, ...named, '--password-stdin'], { input: `${PASSWORD}\n` });
      this.viewers.push({ email, password: PASSWORD });
    }
  }

  async #feed(transactions) {
    await this.#serve('manual');
    const rate = (transactions / ((DAYS * DAY_MS) / 1000)).toFixed(6);
    const pace = ['--rate', rate, '--duration', `${DAYS}d`, '--speed', 'max', '--start', timeOf(DAYS + SETTLING_DAYS)];
    await run(['feed', '--connect', this.iso8583, '--cards', this.cards, ...pace]);
    await this.#stop();
  }

  /** Has purchases made as fast as they are taken until there are so many transactions. */
  async #fill(transactions, say) {
    while (this.known.transactions < transactions) {
      say(`${this.known.transactions} transactions, making more`);
      await this.load({ inFlight: FILLING_IN_FLIGHT, seconds: FILLING_SECONDS });
      this.known.transactions = (await this.#ask('GET', '/v1/transactions?limit=1')).count;
    }
  }

  async #serve(clock) {
    const log = openSync(path.join(this.#directory, 'serve.log'), 'a');
    const doors = ['--http', '127.0.0.1:0', '--iso8583', '127.0.0.1:0'];
    const args = ['serve', '--data', this.data, '--clock', clock, ...doors];
    this.#child = start({ stdio: ['ignore', 'pipe', log] }, ...args);
    closeSync(log);
    const lines = readline.createInterface({ input: this.#child.stdout });
    const [ready] = await Promise.race([once(lines, 'line'), once(this.#child, 'exit')]);
    const doorsRead = /^ready http=(\S+) iso8583=(\S+)/.exec(ready);
    if (!doorsRead) throw new Error(`serve printed \`${ready}\`; see ${this.#directory}/serve.log`);
    this.url = `http://${doorsRead[1]}`;
    this.iso8583 = doorsRead[2];
  }

  async #stop() {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await ended;
    this.#child = undefined;
  }

  async #ask(method, target, body) {
    const headers = { authorization: `Token ${this.credentials.access_token}`, 'content-type': 'application/json' };
    const response = await fetch(`${this.url}${target}`, { method, headers, body: body && JSON.stringify(body) });
    if (!response.ok) throw new Error(`${method} ${target} answers ${response.status}`);
    return response.json();
  }

  /** What the addresses of pages need. */
  async #find() {
    const { count, results: [transaction] } = await this.#ask('GET', '/v1/transactions?limit=1&state=completed');
    const all = await this.#ask('GET', '/v1/transactions?limit=1');
    const card = transaction.card.id;
    const { link } = await this.#ask('POST', '/v1/shared-links', { card: { id: card } });
    return { transactions: all.count, completed: count, transaction: transaction.id, card, shared: new URL(link).pathname };
  }

  /** Puts authorizations through the switch and returns what the load generator tells. */
  async load({ rate, inFlight, seconds }) {
    const args = ['iso', '--address', this.iso8583, '--cards', this.cards, '--json', '--seconds', String(seconds)];
    const pace = rate ? ['--rate', String(rate)] : ['--in-flight', String(inFlight)];
    const child = spawn(this.#load, [...args, ...pace], { stdio: ['ignore', 'pipe', 'inherit'] });
    const chunks = [];
    child.stdout.on('data', (chunk) => chunks.push(chunk));
    const [code] = await once(child, 'close');
    if (code !== 0) throw new Error(`load ended with ${code}`);
    return JSON.parse(Buffer.concat(chunks).toString()).run;
  }

  async remove() {
    if (this.#child) await this.#stop();
    await rm(this.#directory, { recursive: true, force: true });
  }
}
