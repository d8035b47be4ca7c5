// Pages by keyboard alone.

import assert from 'node:assert/strict';

/** Presses Tab until what has the focus is called `name`; everything must be within reach. */
export async function tabTo(page, name) {
  const focused = () => page.evaluate(() => {
    const element = document.activeElement;
    const label = element.labels?.[0]?.textContent ?? element.textContent;
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    return { name: label.trim(), isShown: outlineStyle !== 'none' && outlineWidth !== '0px' };
  });
  for (let presses = 0; presses < 40; presses += 1) {
    const { name: here, isShown } = await focused();
    if (here === name) {
      assert.ok(isShown, `it can be seen that ${name} has the focus`);
      return;
    }
    await page.keyboard.press('Tab');
  }
  assert.fail(`${name} is out of reach of the keyboard at ${page.url()}`);
}

/**
 * Waits until reading begins at what an alert says. Autofocus is given with the first frame, which
 * may come after `load`.
 */
export async function focusAtAlert(page) {
  await page.waitForFunction(() => document.activeElement?.getAttribute('role') === 'alert');
}
