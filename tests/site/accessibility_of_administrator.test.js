// The pages of an administrator, as they are found by following links: most pages that there are, so that other
// roles' have a file of their own, beside which this one runs.

import assert from 'node:assert/strict';

import { furnish } from './harness/company.js';
import { ACCOUNT, assertNone, crawl, inspectAll } from './harness/gallery.js';
import { addUserOfEachRole, registerApp, signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

/** Pages that must be found. */
const EXPECTED = [
  ...ACCOUNT, '/overview', '/cards', '/cards/new', '/cards/{id}', '/cards/{id}/edit', '/cards/{id}/allowance', '/cards/{id}/number',
  '/cards/{id}/links/new', '/cards/{id}/close', '/transactions', '/transactions/{id}', '/requisitions', '/requisitions/new',
  '/requisitions/{id}', '/members', '/members/new', '/members/{id}', '/members/{id}/deactivate', '/members/{id}/delete',
  '/dimensions/{kind}', '/dimensions/{kind}/{id}', '/statements', '/apps', '/apps/new', '/apps/{id}', '/tokens', '/webhooks', '/webhooks/new',
  '/webhooks/{id}', '/peers', '/audit', '/docs', '/docs/{page}',
];

siteTest('axe finds nothing on the pages of an administrator', async (stage) => {
  await furnish(stage, 'member@example.com');
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await registerApp(page, { redirectUrls: ['https://books.example/'] });
  const found = await crawl(page, '/account', ['/search?q=lunch', '/search?q=nothing+like+it', '/search']);
  for (const kind of EXPECTED) assert.ok(found.has(kind), `${kind} is out of reach`);
  assertNone(await inspectAll(page, found, 'administrator'));
}, addUserOfEachRole);
