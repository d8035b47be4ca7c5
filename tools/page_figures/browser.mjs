// Chromium, as the browser tests start it: when a page shows something first, and how much it loads.

import { createRequire } from 'node:module';

const { chromium } = createRequire(new URL('../../tests/site/package.json', import.meta.url))('playwright-core');
const VIEW = { width: 1280, height: 800 };

/** A browser of somebody who has signed in. */
export class Browser {
  #browser;
  #url;
  #cookie;

  static async launch(url, cookie) {
    const browser = new Browser();
    const args = ['--disable-background-networking', '--disable-gpu', '--no-first-run'];
    if (process.getuid() === 0) args.push('--no-sandbox');
    browser.#browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });
    browser.#url = url;
    browser.#cookie = cookie;
    return browser;
  }

  /** A page of a profile that has kept nothing. */
  async #newPage() {
    const context = await this.#browser.newContext({ viewport: VIEW });
    const [name, value] = this.#cookie.split('=');
    await context.addCookies([{ name, value, url: this.#url }]);
    return context.newPage();
  }

  /** When each of `count` loads showed something first. Units: milliseconds after it was asked for. */
  async paints(path, count) {
    const times = [];
    for (let number = 0; number < count; number += 1) {
      const page = await this.#newPage();
      await page.goto(`${this.#url}${path}`);
      times.push(await page.evaluate(firstPaint));
      await page.context().close();
    }
    return times;
  }

  /** What a load brings with its style and scripts, heads of answers too, nothing being kept. Units: bytes. */
  async bytes(path) {
    const page = await this.#newPage();
    const network = await page.context().newCDPSession(page);
    await network.send('Network.enable');
    let bytes = 0;
    // A stream never ends and is not counted.
    network.on('Network.loadingFinished', ({ encodedDataLength }) => { bytes += encodedDataLength; });
    await page.goto(`${this.#url}${path}`, { waitUntil: 'load' });
    await page.waitForTimeout(300);
    await page.context().close();
    return bytes;
  }

  close() {
    return this.#browser.close();
  }
}

/** Runs in the page. */
function firstPaint() {
  return new Promise((resolve) => {
    const observer = new PerformanceObserver((list) => {
      const entry = list.getEntriesByName('first-contentful-paint')[0];
      if (entry) resolve(entry.startTime);
    });
    observer.observe({ type: 'paint', buffered: true });
  });
}
