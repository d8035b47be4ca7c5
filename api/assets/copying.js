// Puts a button beside everything that can be copied. Without it, the same can be selected by hand.

const SHOWN_MS = 2000;

function buttonFor(element) {
  const label = element.dataset.copy;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'quiet slight';
  button.textContent = 'Copy';
  button.setAttribute('aria-label', `Copy ${label}`);
  button.addEventListener('click', async () => {
    // What is shown in groups is one number.
    await navigator.clipboard.writeText(element.dataset.value ?? element.textContent.trim());
    button.textContent = 'Copied';
    document.getElementById('copied').textContent = `Copied ${label}.`;
    setTimeout(() => { button.textContent = 'Copy'; }, SHOWN_MS);
  });
  return button;
}

// Browsers have it on pages they trust only.
if (navigator.clipboard) {
  for (const element of document.querySelectorAll('[data-copy]')) element.after(buttonFor(element));
}
