#!/usr/bin/env node
// What pages of the site cost with many transactions behind them: the time until the last byte, bytes,
// the first paint in Chromium; and what live overviews cost authorizations.
//
//   cargo build --profile dist -p cardswitch-api -p cardswitch-tools
//   npm --prefix tests/site ci
//   tools/page_figures/page_figures.mjs                        # a million transactions
//   tools/page_figures/page_figures.mjs --transactions 20000 --requests 50 --rounds 1 --seconds 2   # a look
//
// The data directory is made below TMPDIR and deleted at the end. Times run from the request to the last
// byte, on one kept connection; the first paint is the first contentful one, cold.

import { parseArgs } from 'node:util';

import { Browser } from './browser.mjs';
import { Followers } from './followers.mjs';
import { History } from './history.mjs';
import { Visitor, spread } from './visitor.mjs';

const OPTIONS = {
  transactions: { type: 'string', default: '1000000' },
  fed: { type: 'string', default: '50000' },
  cards: { type: 'string', default: '5000' },
  requests: { type: 'string', default: '500' },
  paints: { type: 'string', default: '15' },
  overviews: { type: 'string', default: '100' },
  rate: { type: 'string', default: '10000' },
  seconds: { type: 'string', default: '10' },
  rounds: { type: 'string', default: '3' },
  binaries: { type: 'string', default: 'target/dist' },
  json: { type: 'boolean', default: false },
};

/** What there is to see, each with what its address needs. */
const PAGES = [
  ['overview', () => '/overview'],
  ['cards', () => '/cards'],
  ['cards, a text', () => '/cards?text=travel'],
  ['card', ({ card }) => `/cards/${card}`],
  ['transactions', () => '/transactions'],
  ['transactions, declined', () => '/transactions?state=declined'],
  ['transactions, deep', ({ transactions }) => `/transactions?offset=${Math.floor(transactions / 2)}`],
  ['transactions of a card', ({ card }) => `/transactions?card=${card}`],
  ['transaction', ({ transaction }) => `/transactions/${transaction}`],
  ['statements', () => '/statements'],
  ['requisitions', () => '/requisitions'],
  ['members', () => '/members'],
  ['dimensions', () => '/dimensions/categories'],
  ['apps', () => '/apps'],
  ['tokens', () => '/tokens'],
  ['webhooks', () => '/webhooks'],
  ['audit log', () => '/audit'],
  ['account', () => '/account'],
  ['shared card', ({ shared }) => shared],
];

async function main() {
  const options = numbers(parseArgs({ options: OPTIONS }).values);
  process.env.CARDSWITCH_BIN ??= `${options.binaries}/cardswitch`;
  const say = options.json ? console.error : console.log;
  const history = await History.make(options, say);
  const figures = {};
  try {
    figures.transactions = history.known.transactions;
    const visitor = await Visitor.signIn(history.url, history.administrator);
    const pages = await timePages(visitor, history.known, options.requests);
    const browser = await Browser.launch(history.url, visitor.cookie);
    for (const page of pages.filter(({ status }) => status === 200)) {
      page.paint_ms = spread(await browser.paints(page.path, options.paints));
      page.loaded_bytes = await browser.bytes(page.path);
    }
    await browser.close();
    figures.pages = pages;
    figures.live = await timeAuthorizations(history, options, say);
  } finally {
    await history.remove();
  }
  if (options.json) console.log(JSON.stringify(figures));
  else print(figures);
}

function numbers(values) {
  const read = ([name, value]) => [name, /^\d+$/.test(value) ? Number(value) : value];
  return Object.fromEntries(Object.entries(values).map(read));
}

/** Loads each page again and again, one load after the other. */
async function timePages(visitor, known, requests) {
  const pages = [];
  for (const [name, pathOf] of PAGES) {
    const path = pathOf(known);
    const { status } = await visitor.load(path);
    const page = { name, path, status };
    if (status === 200) {
      const loads = [];
      for (let count = 0; count < requests; count += 1) loads.push(await visitor.load(path));
      page.time_ms = spread(loads.map(({ ms }) => ms));
      page.html_bytes = loads.at(-1).bytes;
    }
    pages.push(page);
  }
  return pages;
}

/** The same load without and with overviews open, in turns: what the machine does besides hits both. */
async function timeAuthorizations(history, { overviews, rate, seconds, rounds }, say) {
  const runs = { without: [], with: [] };
  for (let round = 0; round < rounds; round += 1) {
    runs.without.push(await history.load({ rate, seconds }));
    const followers = await Followers.open(history, overviews);
    const run = await history.load({ rate, seconds });
    runs.with.push({ ...run, ...followers.close() });
    say(`round ${round + 1} of ${rounds} is done`);
  }
  return { overviews, rate, ...runs };
}

function print({ transactions, pages, live }) {
  console.log(`\n| page, ${transactions} transactions | p50 ms | p99 ms | HTML bytes | first paint, median ms | all bytes, nothing kept |`);
  console.log('|---|---:|---:|---:|---:|---:|');
  for (const { name, status, time_ms: time, html_bytes: html, paint_ms: paint, loaded_bytes: all } of pages) {
    if (status !== 200) console.log(`| ${name} | answers ${status} | | | | |`);
    else console.log(`| ${name} | ${time.p50.toFixed(1)} | ${time.p99.toFixed(1)} | ${html} | ${paint.p50.toFixed(0)} | ${all} |`);
  }
  console.log(`\n| authorizations at ${live.rate}/s | answered/s | p50 us | p99 us | p99.9 us | messages to overviews |`);
  console.log('|---|---:|---:|---:|---:|---:|');
  const line = (name) => ({ achieved_rate: achieved, latency_us: latency, told, opened }) => {
    const heard = told === undefined ? '' : `${told} to ${opened}`;
    const [p50, p99, p999] = ['p50', 'p99', 'p99.9'].map((at) => latency[at].toFixed(0));
    console.log(`| ${name} | ${achieved.toFixed(0)} | ${p50} | ${p99} | ${p999} | ${heard} |`);
  };
  live.without.forEach((run, round) => {
    line('no overview open')(run);
    line(`${live.overviews} overviews open`)(live.with[round]);
  });
}

await main();
