// The documentation, with everything on it unfolded.

import assert from 'node:assert/strict';

import { SOME_LOOKS, assertNone, inspect } from './harness/gallery.js';
import { siteTest } from './harness/stage.js';

siteTest('axe finds nothing in the documentation', async (stage) => {
  const page = await stage.newPage();
  await page.goto('/docs');
  const pages = [...new Set((await page.locator('nav.ways a').evaluateAll((links) => links.map((link) => new URL(link.href).pathname))))];
  assert.ok(pages.length > 15, `${pages.length} pages`);
  const found = [];
  for (const target of pages) {
    await page.goto(target);
    await page.locator('details').evaluateAll((all) => all.forEach((one) => { one.open = true; }));
    await stage.shot(page, `docs${target.replaceAll('/', '-')}`);
    found.push(...(await inspect(page, target, SOME_LOOKS)));
  }
  assertNone(found);
});
