// Chromium, as the browser tests start it: when pages show something first, and how much they load.
//
//   browser.mjs URL COOKIE PAINTS PATH...      prints a list with `paints` and `bytes` of each path

import { createRequire } from 'node:module';

const { chromium } = createRequire(new URL('../../tests/site/package.json', import.meta.url))('playwright-core');
const VIEW = { width: 1280, height: 800 };

/** A page of a profile that has kept nothing but the cookie. */
async function newPage(browser, url, cookie) {
  const context = await browser.newContext({ viewport: VIEW });
  const [name, value] = cookie.split('=');
  await context.addCookies([{ name, value, url }]);
  return context.newPage();
}

/** When a load shows something first. Units: milliseconds after it was asked for. */
async function paint(page, address) {
  await page.goto(address);
  const time = await page.evaluate(firstPaint);
  await page.context().close();
  return time;
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

/** What a load brings with its style and scripts, heads of answers too. Units: bytes. */
async function load(page, address) {
  const network = await page.context().newCDPSession(page);
  await network.send('Network.enable');
  let bytes = 0;
  // A stream never ends and is not counted.
  network.on('Network.loadingFinished', ({ encodedDataLength }) => { bytes += encodedDataLength; });
  await page.goto(address, { waitUntil: 'load' });
  await page.waitForTimeout(300);
  await page.context().close();
  return bytes;
}

const [url, cookie, count, ...paths] = process.argv.slice(2);
const args = ['--disable-background-networking', '--disable-gpu', '--no-first-run'];
if (process.getuid() === 0) args.push('--no-sandbox');
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });
const pages = [];
for (const path of paths) {
  const paints = [];
  for (let number = 0; number < Number(count); number += 1) {
    paints.push(await paint(await newPage(browser, url, cookie), `${url}${path}`));
  }
  pages.push({ paints, bytes: Math.round(await load(await newPage(browser, url, cookie), `${url}${path}`)) });
}
await browser.close();
console.log(JSON.stringify(pages));
