// Puts a button behind each value that is marked for it, which copies the value. Pages are whole
// without: values can be selected at once.

for (const value of document.querySelectorAll('[data-copy]')) {
  if (!navigator.clipboard) break;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'quiet slight copy';
  button.textContent = 'Copy';
  button.setAttribute('aria-label', `Copy ${value.dataset.copy || 'the value above'}`);
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(value.dataset.copyText ?? value.textContent.trim());
      button.textContent = 'Copied';
      // The place for it, where the page has one, tells those who do not see the button.
      const said = document.getElementById('copied');
      if (said) said.textContent = `Copied ${value.dataset.copy}.`;
    } catch {
      button.textContent = 'Not copied';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
  value.after(button);
}
