// Pictures of whole pages.

const TRIES = 3;

/** Keeps a picture of a page. Chromium now and then refuses one, and takes it when it is asked again. */
export async function keepPicture(page, file) {
  for (let tries = 1; ; tries += 1) {
    try {
      // To hide the caret would put styles into the page.
      return await page.screenshot({ path: file, fullPage: true, caret: 'initial' });
    } catch (error) {
      if (tries === TRIES || !error.message.includes('Unable to capture screenshot')) throw error;
    }
  }
}
