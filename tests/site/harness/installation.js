// A data directory made by `cardswitch init`, and the switches that run on it.

import { openSync, closeSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

import { run, runJson, start } from './command.js';

/** The password of everybody that a test adds. */
export const PASSWORD = 'a heron walks at low tide';

/** A data directory in a temporary place. */
export class Installation {
  static async init() {
    const directory = await mkdtemp(path.join(tmpdir(), 'cardswitch-site-'));
    const data = path.join(directory, 'data');
    const credentials = await runJson(['init', '--data', data, '--json']);
    return new Installation(directory, data, credentials);
  }

  constructor(directory, data, credentials) {
    this.directory = directory;
    this.data = data;
    this.credentials = credentials;
  }

  /** The administrator that `init` makes. */
  get administrator() {
    const { admin_email: email, admin_password: password } = this.credentials;
    return { email, password };
  }

  /** Adds somebody, with a role to a company (that of `init` unless told otherwise), at rest. */
  async addUser({ email, role, isDeveloper = false, company = this.credentials.company_id }) {
    const args = ['user', 'add', '--data', this.data, '--email', email, '--password-stdin'];
    args.push('--first-name', 'Ada', '--last-name', 'Lovelace');
    if (role) args.push('--company', company, '--role', role);
    if (isDeveloper) args.push('--developer');
    await run(args, { input: `${PASSWORD}\n` });
    return { email, password: PASSWORD };
  }

  /** Makes somebody who has an account a member of a further company. The directory is at rest. */
  async addMembership({ email, role, company }) {
    const args = ['user', 'add', '--data', this.data, '--company', company, '--email', email];
    await run([...args, '--first-name', 'Ada', '--last-name', 'Lovelace', '--role', role]);
  }

  /** Registers an app of the first company; its scopes are approved. The directory is at rest. */
  async addApp({ name, redirectUrl, scopes = [] }) {
    const company = this.credentials.company_id;
    const args = ['app', 'add', '--data', this.data, '--company', company, '--name', name, '--json'];
    args.push('--redirect-url', redirectUrl);
    if (scopes.length > 0) args.push('--scope', scopes.join(','));
    const { client_id: clientId, client_secret: clientSecret } = await runJson(args);
    return { clientId, clientSecret };
  }

  /** Adds a company and returns its id. The directory is at rest. */
  async addCompany(name) {
    const made = await runJson(['company', 'add', '--data', this.data, '--name', name, '--json']);
    return made.company_id;
  }

  /** Takes a company's approval back, or gives it. The directory is at rest. */
  async approve(company, isApproved) {
    const args = ['--company', company, '--approved', String(isApproved)];
    await run(['company', 'set', '--data', this.data, ...args]);
  }

  /** Starts `cardswitch serve` on free ports and waits until its doors answer. */
  async serve() {
    const logPath = path.join(this.directory, 'serve.log');
    const log = openSync(logPath, 'a');
    const args = ['--data', this.data, '--http', '127.0.0.1:0', '--iso8583', '127.0.0.1:0', '--allow-local-webhooks'];
    const child = start({ stdio: ['ignore', 'pipe', log] }, 'serve', ...args);
    closeSync(log);
    const lines = readline.createInterface({ input: child.stdout });
    const ready = await new Promise((resolve, reject) => {
      lines.once('line', resolve);
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`serve ended with ${code} before it was ready`)));
    });
    const doors = /^ready http=(\S+) iso8583=(\S+) metrics=(\S+)$/.exec(ready);
    if (!doors) throw new Error(`serve printed \`${ready}\``);
    const [, http, iso8583, metrics] = doors;
    return new Switch(child, { http, iso8583, metrics }, logPath);
  }

  async remove() {
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** A running `cardswitch serve`. */
export class Switch {
  #child;
  #ended;
  #logPath;

  /** `doors` are the addresses of everything it listens at, by name. */
  constructor(child, doors, logPath) {
    this.doors = doors;
    this.url = `http://${doors.http}`;
    this.#child = child;
    this.#logPath = logPath;
    this.#ended = new Promise((resolve) => child.once('exit', resolve));
  }

  /** What it has logged so far. */
  log() {
    return readFile(this.#logPath, 'utf8');
  }

  /** Ends it by SIGTERM; anything but a clean end is an error. */
  async stop() {
    this.#child.kill('SIGTERM');
    const code = await this.#ended;
    if (code !== 0) throw new Error(`serve left with ${code}:\n${await this.log()}`);
  }
}
