// The findings of axe-core on a page: rules of WCAG 2.2 A and AA, and what its makers hold to be good
// practice.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const SOURCE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** Every finding on the page as it stands, one line each. */
export async function findings(page) {
  // The policy of pages holds for what they load, not for what a debugger brings. One that was brought
  // stays until the next page.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(SOURCE);
  const violations = await page.evaluate(async (tags) => {
    const options = { runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'], preload: false };
    const { violations } = await globalThis.axe.run(document, options);
    return violations.map(({ id, impact, help, nodes }) => ({ id, impact, help, nodes: nodes.map(({ target, failureSummary }) => ({ target, failureSummary })) }));
  }, TAGS);
  return violations.map(({ id, impact, help, nodes }) => {
    const { target, failureSummary } = nodes[0];
    return `${impact} ${id}: ${help}: ${target.join(' ')} (of ${nodes.length}): ${failureSummary.replace(/\s+/g, ' ')}`;
  });
}
