// The stage of a test of the site: an installation and a switch of its own, a browser that has
// never been there, and eyes on every page.

import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { after, test } from 'node:test';

import { chromium } from 'playwright-core';

import { TARGET } from './command.js';
import { Installation } from './installation.js';
import { keepPicture } from './picture.js';
import { Receiver } from './receiver.js';
import { Watch } from './watch.js';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell';
const PICTURES = path.join(TARGET, 'site');
const WIDE = { width: 1000, height: 800 };
const NARROW = { width: 360, height: 740 };

// One browser process for all tests of a file; each test has a profile of its own.
let launched;

function browser() {
  // Chromium refuses its sandbox to root; the rest keeps it from asking hosts of its maker.
  const sandbox = process.getuid() === 0 ? ['--no-sandbox'] : [];
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];
  const args = [...sandbox, ...quiet, '--disable-gpu', '--disable-quic', '--no-first-run'];
  launched ??= chromium.launch({ executablePath: CHROMIUM, args });
  return launched;
}

after(async () => (await launched)?.close());

/** One test's switch, browser and receiver. */
export class Stage {
  #watches = new Map();
  #contexts = [];

  /** Starts the switch; `prepare` acts on the directory before, and may name the receiver. */
  static async set(prepare) {
    const stage = new Stage();
    stage.installation = await Installation.init();
    stage.receiver = await Receiver.start();
    stage.prepared = await prepare(stage.installation, stage.receiver);
    stage.switch = await stage.installation.serve();
    stage.url = stage.switch.url;
    return stage;
  }

  /** A page of a browser that has never been here; `options` as Playwright takes them. */
  async newPage(options = {}) {
    const page = await this.newForeignPage(options);
    this.#watches.set(page, new Watch(page, this.url));
    return page;
  }

  /** As `newPage`, for pages of others, whose faults are not looked at. */
  async newForeignPage(options = {}) {
    const context = await (await browser()).newContext({ baseURL: this.url, viewport: WIDE, ...options });
    this.#contexts.push(context);
    return context.newPage();
  }

  /** Keeps a picture of the page, wide and narrow, and looks at its form. */
  async shot(page, name) {
    await mkdir(PICTURES, { recursive: true });
    const watch = this.#watches.get(page);
    for (const [size, suffix] of [[NARROW, '-narrow'], [WIDE, '']]) {
      await page.setViewportSize(size);
      await watch.inspect(page);
      await keepPicture(page, path.join(PICTURES, `${name}${suffix}.png`));
    }
  }

  /** A picture of every page as it was when a test failed. */
  async keepFailure(name) {
    await mkdir(PICTURES, { recursive: true });
    const pages = this.#contexts.flatMap((context) => context.pages());
    for (const [index, page] of pages.entries()) {
      const file = `failed-${name.replace(/\W+/g, '-')}-${index}.png`;
      await keepPicture(page, path.join(PICTURES, file)).catch(() => {});
      console.error(`${name}: was at ${page.url()}; see ${path.join(PICTURES, file)}`);
    }
    console.error((await this.switch.log()).split('\n').slice(-20).join('\n'));
  }

  /** Throws where any page of the test was not clean. */
  assertClean() {
    for (const watch of this.#watches.values()) watch.assertClean();
  }

  /** Ends everything; a switch that does not end cleanly is an error. */
  async clear() {
    for (const context of this.#contexts) await context.close();
    await this.receiver.stop();
    await this.switch.stop();
    await this.installation.remove();
  }
}

/** A test with a stage of its own. `prepare` makes what it needs beforehand, at rest. */
export function siteTest(name, body, prepare = async () => ({})) {
  test(name, async () => {
    const stage = await Stage.set(prepare);
    try {
      await body(stage);
      stage.assertClean();
    } catch (error) {
      await stage.keepFailure(name);
      throw error;
    } finally {
      await stage.clear();
    }
  });
}
