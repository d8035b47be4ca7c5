// The overview follows what happens: single figures and rows of tables are replaced as the stream
// tells them, and the plots are drawn from the tables beside them. Without this the page is whole; it
// shows what was when it was loaded.

{
  const live = document.querySelector('[data-live]');
  const state = document.querySelector('[data-live-state]');
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const HEIGHT = 200;

  /** A bar stands on the first instant of its day, as ticks do: both are days, not instants. Seconds. */
  const DAY = 86_400;
  const DAY_STEPS = [1, 2, 5, 7, 10, 15].map((days) => days * DAY);
  const utc = (options) => new Intl.DateTimeFormat('en-GB', { ...options, timeZone: 'UTC' });
  const day = utc({ day: 'numeric', month: 'short' });

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  /** Rows of a table, the oldest first. */
  const rowsOf = (name) => [...document.querySelectorAll(`[data-rows=${name}] tr`)].reverse();
  const read = (rows, field) => rows.map((row) => Number(row.dataset[field]));
  const counted = (_, value) => (value === null ? '–' : value.toLocaleString('en'));

  /** What each plot shows: its values, its series, how its axes are labelled. */
  const PLOTS = {
    minutes: {
      values() {
        const rows = rowsOf('minutes');
        // The last slice is under way: its line would always fall.
        return [read(rows, 'at'), read(rows, 'approved'), read(rows, 'declined')].map((all) => all.slice(0, -1));
      },
      series: () => [
        // The clock is the company's, as the table has it.
        { label: 'From', value: (_, at) => rowsOf('minutes').find((row) => Number(row.dataset.at) === at)?.cells[0].textContent ?? '–' },
        { label: 'Approved', value: counted, stroke: colour('--good'), width: 2, points: { show: false } },
        { label: 'Declined', value: counted, stroke: colour('--bad'), width: 2, dash: [6, 4], points: { show: false } },
      ],
      times: { values: (plot, ticks) => ticks.map((at) => `${Math.round((at - plot.scales.x.max) / 60)} min`), incrs: [60, 120, 300] },
      range: (_, min, max) => [min, max],
    },
    days: {
      values() {
        const rows = rowsOf('days');
        return [rows.map((row) => Date.parse(`${row.dataset.day}T00:00:00Z`) / 1000), read(rows, 'authorized')];
      },
      series: (unit) => [
        { label: 'Day', value: (_, at) => (at === null ? '–' : day.format(at * 1000)) },
        {
          label: `Authorized (${unit})`,
          value: counted,
          width: 0,
          stroke: colour('--accent'),
          fill: colour('--accent'),
          paths: uPlot.paths.bars({ size: [0.65, 28], radius: 0.15 }),
          points: { show: false },
        },
      ],
      times: { values: (_, days) => days.map((at) => day.format(at * 1000)), incrs: DAY_STEPS },
      range: (_, min, max) => [min - DAY / 2, max + DAY / 2],
    },
  };

  const holders = [...document.querySelectorAll('[data-plot]')].map((holder) => ({ holder, ...PLOTS[holder.dataset.plot] }));

  function draw(shown) {
    shown.plot?.destroy();
    const axis = { stroke: colour('--soft-ink'), font: '12px system-ui, sans-serif', ticks: { show: false } };
    const grid = { stroke: colour('--line'), width: 1 };
    const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
    shown.plot = new uPlot({
      width: shown.holder.clientWidth,
      height: HEIGHT,
      cursor: { x: false, y: false, drag: { x: false, y: false } },
      legend: { show: true },
      scales: { x: { time: true, range: shown.range }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'UTC'),
      axes: [
        { ...axis, size: 30, grid: { show: false }, ...shown.times },
        { ...axis, grid, size: 48, values: (_, amounts) => amounts.map((amount) => short.format(amount)) },
      ],
      series: shown.series(shown.holder.dataset.unit),
    }, shown.values(), shown.holder);
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
    for (const shown of holders) shown.plot?.setData(shown.values());
    // The moment comes in words: the clock and zone of this browser are not the company's.
    state.textContent = `Live, as of ${new Map(texts).get('taken-at')}`;
  }

  function follow() {
    const stream = new EventSource(live.dataset.live);
    stream.addEventListener('message', (message) => show(JSON.parse(message.data)));
    stream.addEventListener('error', () => { state.textContent = 'Connection lost. Reconnecting…'; });
    stream.addEventListener('end', () => {
      stream.close();
      state.textContent = 'You’ve been signed out, switched company, or no longer have access.';
    });
    // A page that is kept for the way back must not hold a connection.
    addEventListener('pagehide', () => stream.close());
    addEventListener('pageshow', (event) => { if (event.persisted) follow(); }, { once: true });
  }

  for (const table of document.querySelectorAll('[data-plot-table]')) {
    table.dataset.ready = '';
    if (globalThis.uPlot) table.open = false;
  }
  if (globalThis.uPlot) {
    for (const shown of holders) {
      draw(shown);
      dark.addEventListener('change', () => draw(shown));
      new ResizeObserver(() => shown.plot?.setSize({ width: shown.holder.clientWidth, height: HEIGHT })).observe(shown.holder);
    }
  }
  if (globalThis.EventSource) follow();
}
