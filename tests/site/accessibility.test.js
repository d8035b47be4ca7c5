// Every page of the site, as each role finds it by following links, under axe-core: in the light, in the
// dark and on a phone. A picture of each stays in the gallery.
//
// Pages are found, so a new one is looked at without being listed; `EXPECTED` says which must be found,
// so that none is lost in silence.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';

import { TARGET } from './harness/command.js';
import { findings } from './harness/axe.js';
import { furnish } from './harness/company.js';
import { registerApp, signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

const GALLERY = path.join(TARGET, 'site', 'gallery');
const WIDE = { width: 1280, height: 800 };
const PHONE = { width: 360, height: 740 };
const LOOKS = [
  { name: 'light', viewport: WIDE, colorScheme: 'light' },
  { name: 'dark', viewport: WIDE, colorScheme: 'dark' },
  { name: 'phone', viewport: PHONE, colorScheme: 'light' },
  { name: 'phone-dark', viewport: PHONE, colorScheme: 'dark' },
];
/** Both schemes and both sizes, in half the looks. */
const SOME_LOOKS = [LOOKS[0], LOOKS[3]];
/** How many pages of one kind are looked at: those of objects in several states. */
const OF_ONE_KIND = 3;

const ACCOUNT = ['/account', '/account/password', '/account/totp', '/account/question'];
/** Pages that each role must come by. */
const EXPECTED = {
  administrator: [
    ...ACCOUNT, '/overview', '/cards', '/cards/new', '/cards/{id}', '/cards/{id}/edit', '/cards/{id}/allowance', '/cards/{id}/number',
    '/cards/{id}/links/new', '/cards/{id}/close', '/transactions', '/transactions/{id}', '/requisitions', '/requisitions/new',
    '/requisitions/{id}', '/members', '/members/new', '/members/{id}', '/members/{id}/deactivate', '/members/{id}/delete',
    '/dimensions/{kind}', '/dimensions/{kind}/{id}', '/statements', '/apps', '/apps/new', '/apps/{id}', '/tokens', '/webhooks', '/webhooks/new',
    '/webhooks/{id}', '/peers', '/audit', '/docs', '/docs/{page}',
  ],
  accountant: [...ACCOUNT, '/overview', '/cards', '/cards/{id}', '/transactions', '/transactions/{id}', '/requisitions', '/members', '/dimensions/{kind}', '/statements', '/tokens'],
  reviewer: [...ACCOUNT, '/overview', '/requisitions', '/requisitions/{id}', '/members', '/members/{id}'],
  member: [...ACCOUNT, '/overview', '/cards', '/cards/{id}', '/cards/{id}/number', '/transactions', '/transactions/{id}', '/requisitions', '/requisitions/new'],
};

/** What pages of one kind have in common: ids are not among it, nor what is asked of lists. */
function kindOf(url) {
  const { pathname } = new URL(url);
  const withoutIds = pathname.replace(/\/[0-9a-f]{8}-[0-9a-f-]{27}(?=\/|$)/g, '/{id}').replace(/\/[0-9a-f]{64}(?=\/|$)/g, '/{key}');
  return withoutIds.replace(/^\/dimensions\/[a-z]+/, '/dimensions/{kind}').replace(/^\/docs\/[a-z-]+/, '/docs/{page}');
}

/** Every page that links lead to from `start`, a few of each kind. */
async function crawl(page, start, extra = []) {
  const found = new Map();
  const seen = new Set();
  const waiting = [start, ...extra];
  while (waiting.length > 0) {
    const link = waiting.shift();
    const isKnown = (target) => seen.has(target) || (found.get(kindOf(new URL(target, page.url()))) ?? []).length >= OF_ONE_KIND;
    if (isKnown(link)) continue;
    seen.add(link);
    const target = await pageAt(page, link);
    if (target === null || (target !== link && isKnown(target))) continue;
    seen.add(target);
    await page.goto(target);
    const kind = kindOf(new URL(target, page.url()));
    found.set(kind, [...(found.get(kind) ?? []), target]);
    waiting.push(...(await page.evaluate(linksOf)));
  }
  return found;
}

/** Runs in the page. Documents of the API are no pages. */
function linksOf() {
  const links = [...document.querySelectorAll('a[href]')].map((link) => new URL(link.href));
  const own = links.filter(({ origin, pathname }) => origin === location.origin && !/^\/(v1|openapi|network|llms)/.test(pathname));
  return own.map(({ pathname, search }) => `${pathname}${search}`);
}

/** Where a link ends; null where that is no page: statements and receipts are files. */
async function pageAt(page, link) {
  const answer = await page.request.get(link);
  const isPage = answer.status() === 200 && (answer.headers()['content-type'] ?? '').startsWith('text/html');
  const { pathname, search } = new URL(answer.url());
  return isPage ? `${pathname}${search}` : null;
}

/** Looks at the pages of a crawl: in all looks at the first of each kind, in some at those that differ by
 * the state of their object. */
async function inspectAll(stage, page, found, role) {
  const kinds = [...found.values()];
  const first = await inspect(stage, page, kinds.map(([one]) => one), role, LOOKS);
  return first.concat(await inspect(stage, page, kinds.flatMap(([, ...others]) => others), role, SOME_LOOKS));
}

/** Looks at pages in some of the looks; returns what axe found. */
async function inspect(stage, page, pages, role, looks) {
  await mkdir(GALLERY, { recursive: true });
  const found = [];
  for (const target of pages) {
    await page.goto(target);
    for (const { name, viewport, colorScheme } of looks) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      const label = `${role}${kindOf(new URL(target, stage.url)).replace(/[/{}]+/g, '-').replace(/-$/, '')}`;
      const file = path.join(GALLERY, `${label}-${name}${numbered(label + name)}.png`);
      await page.screenshot({ path: file, fullPage: true, caret: 'initial' });
      found.push(...(await findings(page)).map((finding) => `${role} ${target} ${name}: ${finding}`));
    }
  }
  return found;
}

const taken = new Map();

/** Several pages of one kind have pictures of their own. */
function numbered(name) {
  const count = (taken.get(name) ?? 0) + 1;
  taken.set(name, count);
  return count === 1 ? '' : `-${count}`;
}

function assertNone(found) {
  assert.equal(found.length, 0, `axe finds on ${found.length} pages:\n${[...new Set(found)].join('\n')}`);
}

/** Somebody of each role. */
async function addPeople(installation) {
  const people = {};
  for (const role of ['accountant', 'reviewer', 'member']) {
    people[role] = await installation.addUser({ email: `${role}@example.com`, role });
  }
  return people;
}

siteTest('axe finds nothing on the pages of an administrator', async (stage) => {
  await furnish(stage, 'member@example.com');
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await registerApp(page, { redirectUrls: ['https://books.example/'] });
  const found = await crawl(page, '/account', ['/search?q=lunch', '/search?q=nothing+like+it', '/search']);
  for (const kind of EXPECTED.administrator) assert.ok(found.has(kind), `${kind} is out of reach`);
  assertNone(await inspectAll(stage, page, found, 'administrator'));
}, addPeople);

siteTest('axe finds nothing on the pages of other roles', async (stage) => {
  await furnish(stage, 'member@example.com');
  const all = [];
  for (const role of ['accountant', 'reviewer', 'member']) {
    const page = await stage.newPage();
    await signIn(page, stage.prepared[role]);
    const found = await crawl(page, '/account');
    for (const kind of EXPECTED[role]) assert.ok(found.has(kind), `${kind} is out of reach of a ${role}`);
    all.push(...(await inspect(stage, page, [...found.values()].flat(), role, SOME_LOOKS)));
  }
  assertNone(all);
}, addPeople);

siteTest('axe finds nothing on pages of a company where nothing is yet', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.prepared);
  const found = await crawl(page, '/account');
  assertNone(await inspect(stage, page, [...found.values()].flat(), 'empty', [LOOKS[0], LOOKS[2]]));
}, (installation) => installation.addUser({ email: 'nobody@example.com' }));

siteTest('axe finds nothing in the documentation', async (stage) => {
  const page = await stage.newPage();
  await page.goto('/docs');
  const pages = [...new Set((await page.locator('nav.ways a').evaluateAll((links) => links.map((link) => new URL(link.href).pathname))))];
  assert.ok(pages.length > 15, `${pages.length} pages`);
  assertNone(await inspect(stage, page, pages, 'docs', SOME_LOOKS));
  await page.setViewportSize(PHONE);
  for (const target of pages) {
    await page.goto(target);
    await page.locator('details').evaluateAll((all) => all.forEach((one) => { one.open = true; }));
    await stage.shot(page, `docs${target.replaceAll('/', '-')}`);
  }
});

siteTest('axe finds nothing on pages of guests', async (stage) => {
  const { links } = await furnish(stage, 'member@example.com');
  const page = await stage.newPage();
  const pages = ['/login', '/password/forgot', links.open.link, links.asking.link];
  const all = await inspect(stage, page, pages, 'guest', LOOKS);
  for (const [target, name] of [['/nothing', 'error'], ['/s/unknown', 'gone']]) {
    await page.goto(target);
    all.push(...(await findings(page)).map((finding) => `${name}: ${finding}`));
  }
  await page.goto(links.asking.link);
  await page.getByLabel('Name of the dog').fill('Max');
  await page.getByLabel('Birthday').fill('1990-02-28');
  await page.getByRole('button', { name: 'See the card' }).click();
  await page.getByRole('alert').waitFor();
  all.push(...(await findings(page)).map((finding) => `refused: ${finding}`));
  await page.goto(links.open.link);
  await page.getByRole('button', { name: /Show number/ }).click();
  await page.getByRole('heading', { name: 'Payment details' }).waitFor();
  for (const { viewport, colorScheme } of LOOKS) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
    all.push(...(await findings(page)).map((finding) => `number: ${finding}`));
  }
  assertNone(all);
}, addPeople);
