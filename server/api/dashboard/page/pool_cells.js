// From runs of pages to cells of a picture. No drawing here.

export const STATES = ["used", "shared", "cached", "free"];

/** How a pool fits: the size of a cell in pixels, columns, and how many cells there may be. */
export function gridFor(pool, width, maxHeight) {
  const units = Math.ceil(pool.num_pages / grainOf(pool));
  const largest = 26;
  const smallest = 7;
  for (let size = largest; size > smallest; size--) {
    const columns = Math.max(1, Math.floor(width / size));
    if (Math.ceil(units / columns) * size <= maxHeight) return grid(size, columns, maxHeight);
  }
  return grid(smallest, Math.max(1, Math.floor(width / smallest)), maxHeight);
}

function grid(size, columns, maxHeight) {
  return { size, columns, capacity: columns * Math.max(1, Math.floor(maxHeight / size)) };
}

/** Cells of equally many pages, at most `capacity`. Runs that are not exact are not taken apart. */
export function cellsOf(pool, capacity) {
  const runs = pool.runs.map(complete);
  const grain = grainOf(pool);
  const perCell = Math.ceil(pool.num_pages / capacity / grain) * grain;
  const cells = [];
  for (const run of runs) addRun(cells, run, perCell);
  return { cells, perCell };
}

/** How many pages of each state the pool has. */
export function totalsOf(pool) {
  const totals = { used: 0, shared: 0, cached: 0, free: 0 };
  for (const run of pool.runs) for (const state of STATES) totals[state] += run[state] ?? 0;
  return totals;
}

/** The fewest pages that can be shown apart. */
function grainOf(pool) {
  return pool.exact ? 1 : complete(pool.runs[0]).count;
}

/** A run with the figures that the server left out: they are 0. */
function complete(run) {
  const whole = { free: 0, used: 0, shared: 0, cached: 0, tokens: 0, holders: 0, owners: [], ...run };
  whole.count = whole.free + whole.used + whole.shared + whole.cached;
  return whole;
}

function addRun(cells, run, perCell) {
  let left = run.count;
  while (left > 0) {
    const last = cells.at(-1);
    const cell = last && last.count < perCell ? last : emptyCell(cells, perCell);
    const taken = Math.min(left, perCell - cell.count);
    addPart(cell, run, taken);
    left -= taken;
  }
}

function emptyCell(cells, perCell) {
  const cell = {
    first: cells.length * perCell,
    count: 0,
    free: 0,
    used: 0,
    shared: 0,
    cached: 0,
    tokens: 0,
    holders: 0,
    owners: [],
  };
  cells.push(cell);
  return cell;
}

function addPart(cell, run, taken) {
  const part = taken / run.count;
  cell.count += taken;
  for (const state of STATES) cell[state] += run[state] * part;
  cell.tokens += run.tokens * part;
  cell.holders = Math.max(cell.holders, run.holders);
  cell.owners = [...new Set([...cell.owners, ...run.owners])];
}
