// Somebody who has signed in, without a browser: loads pages and says how long each took.

import http from 'node:http';

/** One connection, kept. */
export class Visitor {
  #agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  #url;

  static async signIn(url, { email, password }) {
    const visitor = new Visitor();
    visitor.#url = url;
    const page = await fetch(`${url}/login`);
    const form = cookieOf(page);
    const csrf = /name="csrf" value="([^"]*)"/.exec(await page.text())[1];
    const body = new URLSearchParams({ csrf, email, password });
    const answer = await fetch(`${url}/login`, { method: 'POST', body, headers: { cookie: form, origin: url }, redirect: 'manual' });
    if (answer.status !== 303) throw new Error(`signing in answers ${answer.status}`);
    visitor.cookie = cookieOf(answer, 'session');
    return visitor;
  }

  /** Loads a page to its last byte. */
  async load(path) {
    const began = performance.now();
    const response = await this.open(path, this.#agent);
    let bytes = 0;
    for await (const chunk of response) bytes += chunk.length;
    return { status: response.statusCode, bytes, ms: performance.now() - began };
  }

  /** Asks for a page and returns the answer as its head has come. */
  open(path, agent) {
    return new Promise((resolve, reject) => {
      const headers = { cookie: this.cookie, accept: 'text/html' };
      http.get(`${this.#url}${path}`, { agent, headers }, resolve).on('error', reject);
    });
  }
}

function cookieOf(response, name = '') {
  const cookies = response.headers.getSetCookie().map((cookie) => cookie.split(';')[0]);
  return cookies.filter((cookie) => cookie.startsWith(name)).join('; ');
}

/** The middle and the end of what was measured. */
export function spread(values) {
  const sorted = [...values].sort((left, right) => left - right);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return { p50: at(0.5), p99: at(0.99), count: sorted.length };
}
