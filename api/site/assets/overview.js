// The overview follows what happens: single figures and rows of tables are replaced as the stream
// tells them, and the plot is drawn from the table beside it. Without this the page is whole; it shows
// what was when it was loaded.

{
  const live = document.querySelector('[data-live]');
  const holder = document.querySelector('[data-plot]');
  const state = document.querySelector('[data-live-state]');
  const dark = matchMedia('(prefers-color-scheme: dark)');
  let plot;

  /** A bar stands on the first instant of its day, as ticks do: both are days, not instants. Seconds. */
  const DAY = 86_400;
  const DAY_STEPS = [1, 2, 5, 7, 10, 15].map((days) => days * DAY);

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** Days and amounts as the table has them, the oldest first. */
  function series() {
    const rows = [...document.querySelectorAll('[data-rows=days] tr')].reverse();
    const days = rows.map((row) => Date.parse(`${row.dataset.day}T00:00:00Z`) / 1000);
    return [days, rows.map((row) => Number(row.dataset.spent))];
  }

  function draw() {
    plot?.destroy();
    const axis = { stroke: colour('--soft-ink'), font: '12px system-ui, sans-serif', ticks: { show: false } };
    const grid = { stroke: colour('--line'), width: 1 };
    const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
    const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
    plot = new uPlot({
      width: holder.clientWidth,
      height: 240,
      cursor: { x: false, y: false, drag: { x: false, y: false } },
      legend: { show: true },
      scales: { x: { time: true, range: (_, min, max) => [min - DAY / 2, max + DAY / 2] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'UTC'),
      axes: [
        { ...axis, grid: { show: false }, incrs: DAY_STEPS, values: (_, days) => days.map((at) => day.format(at * 1000)) },
        { ...axis, grid, size: 56, values: (_, amounts) => amounts.map((amount) => short.format(amount)) },
      ],
      series: [
        { label: 'Day', value: (_, at) => (at === null ? '–' : day.format(at * 1000)) },
        {
          label: `Spent (${holder.dataset.plot})`,
          value: (_, amount) => (amount === null ? '–' : amount.toLocaleString('en')),
          width: 0,
          stroke: colour('--accent'),
          fill: colour('--accent'),
          paths: uPlot.paths.bars({ size: [0.65, 28], radius: 0.15 }),
          points: { show: false },
        },
      ],
    }, series(), holder);
  }

  /** Puts what is new where it stands; what somebody is about to use is left alone. */
  function show({ texts, rows }) {
    for (const [name, text] of texts) {
      for (const place of live.querySelectorAll(`[data-text="${name}"]`)) {
        if (place.textContent !== text) place.textContent = text;
      }
    }
    for (const [name, markup] of rows) {
      const body = live.querySelector(`[data-rows="${name}"]`);
      if (!body || body.dataset.last === markup || body.contains(document.activeElement)) continue;
      body.dataset.last = markup;
      body.innerHTML = markup;
    }
    plot?.setData(series());
    // The moment comes in words: the clock and zone of this browser are not the company's.
    state.textContent = `Live, as of ${new Map(texts).get('taken-at')}`;
  }

  function follow() {
    const stream = new EventSource(live.dataset.live);
    stream.addEventListener('message', (message) => show(JSON.parse(message.data)));
    stream.addEventListener('error', () => { state.textContent = 'Connection lost. Reconnecting…'; });
    stream.addEventListener('end', () => {
      stream.close();
      state.textContent = 'You’ve been signed out, or you no longer have access.';
    });
    // A page that is kept for the way back must not hold a connection.
    addEventListener('pagehide', () => stream.close());
    addEventListener('pageshow', (event) => { if (event.persisted) follow(); }, { once: true });
  }

  const table = document.querySelector('[data-plot-table]');
  table.dataset.ready = '';
  if (globalThis.uPlot) {
    table.open = false;
    draw();
    dark.addEventListener('change', draw);
    new ResizeObserver(() => plot?.setSize({ width: holder.clientWidth, height: 240 })).observe(holder);
  }
  if (globalThis.EventSource) follow();
}
