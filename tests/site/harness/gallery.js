// Pages under axe-core: in the light, in the dark and on a phone. Pages are found by following links, so a new
// one is looked at without being listed. A picture of each stays in the gallery.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';

import { findings } from './axe.js';
import { TARGET } from './command.js';
import { keepPicture } from './picture.js';

const GALLERY = path.join(TARGET, 'site', 'gallery');
const WIDE = { width: 1280, height: 800 };
const PHONE = { width: 360, height: 740 };
export const LOOKS = [
  { name: 'light', viewport: WIDE, colorScheme: 'light' },
  { name: 'dark', viewport: WIDE, colorScheme: 'dark' },
  { name: 'phone', viewport: PHONE, colorScheme: 'light' },
  { name: 'phone-dark', viewport: PHONE, colorScheme: 'dark' },
];
/** Both schemes and both sizes: what axe finds depends on one of them. */
export const SOME_LOOKS = [LOOKS[0], LOOKS[3]];
/** Pages that everybody has who may sign in. */
export const ACCOUNT = ['/account', '/account/password', '/account/totp', '/account/question'];
/** Pages of one kind that are looked at: those of objects in several states. */
const OF_ONE_KIND = 3;

/** The kind of a page: its path without ids and without the query of lists. */
function kindOf(url) {
  const { pathname } = new URL(url);
  const withoutIds = pathname.replace(/\/[0-9a-f]{8}-[0-9a-f-]{27}(?=\/|$)/g, '/{id}').replace(/\/[0-9a-f]{64}(?=\/|$)/g, '/{key}');
  return withoutIds.replace(/^\/dimensions\/[a-z]+/, '/dimensions/{kind}').replace(/^\/docs\/[a-z-]+/, '/docs/{page}');
}

/** Every page that links lead to from `start`, a few of each kind. */
export async function crawl(page, start, extra = []) {
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

/** The page that a link ends at; null for files, such as statements and receipts. */
async function pageAt(page, link) {
  const answer = await page.request.get(link);
  const isPage = answer.status() === 200 && (answer.headers()['content-type'] ?? '').startsWith('text/html');
  const { pathname, search } = new URL(answer.url());
  return isPage ? `${pathname}${search}` : null;
}

/** Looks at the pages of a crawl: at the first of each kind in some looks, with pictures of all; at those that
 * differ by the state of their object in one. */
export async function inspectAll(page, found, role) {
  for (const [first] of found.values()) {
    await page.goto(first);
    for (const look of LOOKS.filter((look) => !SOME_LOOKS.includes(look))) {
      await wear(page, look);
      await hang(page, role, look);
    }
  }
  const kinds = [...found.values()];
  const findings = await inspectPages(page, kinds.map(([first]) => first), role, SOME_LOOKS);
  return findings.concat(await inspectPages(page, kinds.flatMap(([, ...others]) => others), role, [LOOKS[0]]));
}

/** Looks at pages in some of the looks; returns what axe found. */
export async function inspectPages(page, pages, role, looks) {
  const found = [];
  for (const target of pages) {
    await page.goto(target);
    found.push(...(await inspect(page, `${role} ${target}`, looks, (look) => hang(page, role, look))));
  }
  return found;
}

/** Looks at the page as it stands in some of the looks; returns what axe found. */
export async function inspect(page, label, looks, before = async () => {}) {
  const found = [];
  for (const look of looks) {
    await wear(page, look);
    await before(look);
    found.push(...(await findings(page)).map((finding) => `${label} ${look.name}: ${finding}`));
  }
  return found;
}

async function wear(page, { viewport, colorScheme }) {
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
}

/** Hangs a picture of the page in the gallery. */
async function hang(page, role, { name }) {
  await mkdir(GALLERY, { recursive: true });
  const label = `${role}${kindOf(new URL(page.url())).replace(/[/{}]+/g, '-').replace(/-$/, '')}`;
  const file = path.join(GALLERY, `${label}-${name}${numbered(label + name)}.png`);
  await keepPicture(page, file);
}

const taken = new Map();

/** Several pages of one kind have pictures of their own. */
function numbered(name) {
  const count = (taken.get(name) ?? 0) + 1;
  taken.set(name, count);
  return count === 1 ? '' : `-${count}`;
}

export function assertNone(found) {
  assert.equal(found.length, 0, `axe finds on ${found.length} pages:\n${[...new Set(found)].join('\n')}`);
}
