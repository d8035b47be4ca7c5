// Node's own clients with kept connections (fetch, which is undici, and http.Agent): no request fails for
// the body of the one before it, which nobody read.

import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';

import { Installation } from './harness/installation.js';

const REQUESTS = 600;
const AT_ONCE = 8;

/** What is asked: every third request is valid, the others are refused before their bodies are read. */
function requestOf(number, token) {
  const size = [0, 100, 20_000, 70_000, 300_000, 1 << 20][number % 6];
  const json = { 'content-type': 'application/json' };
  const foreign = { 'content-type': 'application/x-www-form-urlencoded', origin: 'http://elsewhere.example' };
  const body = Buffer.alloc(size, 'x');
  const rows = [
    { method: 'GET', path: '/v1/company', headers: { authorization: `Token ${token}` }, status: 200 },
    { method: 'POST', path: '/login', headers: foreign, body, status: 403 },
    { method: 'POST', path: '/v1/cards', headers: json, body, status: 401 },
    { method: 'GET', path: '/login', headers: {}, status: 200 },
    { method: 'PUT', path: '/nothing', headers: json, body, status: 404 },
    { method: 'POST', path: '/network/v1/authorizations', headers: json, body, status: 401 },
  ];
  return rows[Math.floor(number / 6) % rows.length];
}

async function byFetch(url, { method, path, headers, body }) {
  const answer = await fetch(`${url}${path}`, { method, headers, body });
  await answer.arrayBuffer();
  return answer.status;
}

function byAgent(agent) {
  return (url, { method, path, headers, body }) =>
    new Promise((resolve, reject) => {
      const request = http.request(`${url}${path}`, { agent, method, headers }, (answer) => {
        answer.on('error', reject);
        answer.on('end', () => resolve(answer.statusCode));
        answer.resume();
      });
      request.on('error', reject);
      request.end(body);
    });
}

/** How the requests went that did not go as they ought. */
async function failuresOf(url, token, ask) {
  const failures = [];
  let next = 0;
  const asker = async () => {
    for (let number = next++; number < REQUESTS; number = next++) {
      const request = requestOf(number, token);
      const met = await ask(url, request).catch((error) => error.cause?.code ?? error.code ?? `${error}`);
      if (met !== request.status) failures.push(`${request.method} ${request.path}: ${met}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, asker));
  return failures;
}

test('kept connections fail no request', async (context) => {
  const installation = await Installation.init();
  const stage = await installation.serve();
  const agent = new http.Agent({ keepAlive: true, maxSockets: AT_ONCE });
  context.after(async () => {
    agent.destroy();
    await stage.stop();
    await installation.remove();
  });
  const token = installation.credentials.access_token;
  for (const [name, ask] of [['fetch', byFetch], ['http.Agent', byAgent(agent)]]) {
    const failures = await failuresOf(stage.url, token, ask);
    context.diagnostic(`${name}: ${failures.length} of ${REQUESTS} requests failed`);
    assert.deepEqual(failures, [], name);
  }
});
