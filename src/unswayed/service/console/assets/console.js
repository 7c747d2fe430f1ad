// Decisions and rewards a second, drawn from the totals that every poll brings.
"use strict";
(() => {
  const LONGEST = 150;
  const data = [[], [], []];
  let plot = null;
  let last = null;

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function draw(place) {
    if (plot) plot.destroy();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--rule"), width: 1 },
      ticks: { stroke: colour("--rule") } };
    plot = new uPlot({
      width: place.clientWidth,
      height: 220,
      cursor: { drag: { x: false, y: false } },
      scales: {
        x: { range: (_, low, high) => [Math.min(low, high - 60), high] },
        y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] },
      },
      axes: [axis, { ...axis, size: 56 }],
      series: [
        { label: "time" },
        { label: "decisions a second", stroke: colour("--robust"), width: 2 },
        { label: "rewards a second", stroke: colour("--naive"), width: 2, dash: [5, 3] },
      ],
    }, data, place);
  }

  function take() {
    const place = document.getElementById("plot");
    const totals = document.getElementById("totals");
    if (!place || !totals) return;
    const now = { at: Number(totals.dataset.at), decisions: Number(totals.dataset.decisions),
      rewards: Number(totals.dataset.rewards) };
    if (last && now.at <= last.at) return;
    if (!last) {
      // Without any time the axis would begin in 1970: begin with an empty minute until now.
      data[0].push(now.at / 1000 - 60, now.at / 1000);
      data[1].push(null, null);
      data[2].push(null, null);
    } else {
      const seconds = (now.at - last.at) / 1000;
      data[0].push(now.at / 1000);
      data[1].push(Math.max(0, now.decisions - last.decisions) / seconds);
      data[2].push(Math.max(0, now.rewards - last.rewards) / seconds);
      if (data[0].length > LONGEST) data.forEach((column) => column.shift());
    }
    last = now;
    if (plot) plot.setData(data);
    else draw(place);
    place.dataset.points = String(data[1].filter((rate) => rate !== null).length);
    place.dataset.from = String(data[0][0]);
  }

  function redraw() {
    const place = document.getElementById("plot");
    if (place && plot) draw(place);
  }

  take();
  document.addEventListener("htmx:after:swap", take);
  window.addEventListener("resize", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
})();
