// The pages of guests and of each role but an administrator's, as they find them by following links. `EXPECTED`
// says which must be found, so that none is lost in silence.

import assert from 'node:assert/strict';

import { findings } from './harness/axe.js';
import { furnish } from './harness/company.js';
import { ACCOUNT, LOOKS, SOME_LOOKS, assertNone, crawl, inspect, inspectPages } from './harness/gallery.js';
import { addUserOfEachRole, signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

/** Pages that each role must come by. */
const EXPECTED = {
  accountant: [...ACCOUNT, '/overview', '/cards', '/cards/{id}', '/transactions', '/transactions/{id}', '/requisitions', '/members', '/dimensions/{kind}', '/statements', '/tokens'],
  reviewer: [...ACCOUNT, '/overview', '/requisitions', '/requisitions/{id}', '/members', '/members/{id}'],
  member: [...ACCOUNT, '/overview', '/cards', '/cards/{id}', '/cards/{id}/number', '/transactions', '/transactions/{id}', '/requisitions', '/requisitions/new'],
};

siteTest('axe finds nothing on the pages of other roles', async (stage) => {
  await furnish(stage, 'member@example.com');
  const all = [];
  // An administrator sees the same templates in both schemes and sizes.
  for (const [role, look] of [['accountant', LOOKS[0]], ['reviewer', LOOKS[3]], ['member', LOOKS[3]]]) {
    const page = await stage.newPage();
    await signIn(page, stage.prepared[role]);
    const found = await crawl(page, '/account');
    for (const kind of EXPECTED[role]) assert.ok(found.has(kind), `${kind} is out of reach of a ${role}`);
    all.push(...(await inspectPages(page, [...found.values()].flat(), role, [look])));
  }
  assertNone(all);
}, addUserOfEachRole);

siteTest('axe finds nothing on pages of a company where nothing is yet', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.prepared);
  const found = await crawl(page, '/account');
  assertNone(await inspectPages(page, [...found.values()].flat(), 'empty', [LOOKS[0], LOOKS[2]]));
}, (installation) => installation.addUser({ email: 'nobody@example.com' }));

siteTest('axe finds nothing on pages of guests', async (stage) => {
  const { links } = await furnish(stage, 'member@example.com');
  const page = await stage.newPage();
  const pages = ['/login', '/password/forgot', links.open.link, links.asking.link];
  const all = await inspectPages(page, pages, 'guest', SOME_LOOKS);
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
  all.push(...(await inspect(page, 'number', SOME_LOOKS)));
  assertNone(all);
}, addUserOfEachRole);
