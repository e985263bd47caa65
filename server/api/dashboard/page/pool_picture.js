// The pool as a picture: a cell for each page, or for several where there are too many.

import { cellsOf, gridFor, STATES, totalsOf } from "./pool_cells.js";
import { count, setText } from "./words.js";

const INVITATION = "Point at a page, or focus the picture and use the arrow keys.";
const FILLED = ["used", "shared", "cached"]; // from the bottom of a cell up
const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

export class PoolPicture {
  #canvas = document.getElementById("pool");
  #legend = document.getElementById("legend");
  #pool = null;
  #cells = [];
  #grid = { size: 0, columns: 1, capacity: 1 };
  #pointed = null; // the place of the cell under the pointer
  #chosen = null; // by a key or a tap; it stays
  #detail = "";

  constructor() {
    const canvas = this.#canvas;
    canvas.addEventListener("pointermove", (event) => this.#mark(this.#placeOf(event), this.#chosen));
    canvas.addEventListener("pointerdown", (event) => this.#mark(null, this.#placeOf(event)));
    canvas.addEventListener("pointerleave", () => this.#mark(null, this.#chosen));
    canvas.addEventListener("keydown", (event) => this.#press(event));
    canvas.addEventListener("blur", () => this.#mark(this.#pointed, null));
    new ResizeObserver(() => this.#draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  show(pool) {
    this.#pool = pool;
    const totals = totalsOf(pool);
    for (const state of STATES) {
      this.#legend.querySelector(`[data-state=${state}] b`).textContent = count(totals[state]);
    }
    this.#draw();
  }

  #draw() {
    if (this.#pool === null || this.#canvas.clientWidth === 0) return;
    const width = this.#canvas.clientWidth;
    this.#grid = gridFor(this.#pool, width, width < 500 ? 280 : 320);
    const { cells, perCell } = cellsOf(this.#pool, this.#grid.capacity);
    this.#cells = cells;
    this.#tellSize(perCell);
    this.#paint(width);
    this.#tellDetail();
  }

  #tellSize(perCell) {
    const { num_pages: pages, page_size: tokens } = this.#pool;
    const grouped = perCell > 1 ? `; each square is ${count(perCell)} pages` : "";
    setText("pool-size", `${count(pages)} pages of ${tokens} tokens${grouped}`);
  }

  #paint(width) {
    const { size, columns } = this.#grid;
    const height = Math.ceil(this.#cells.length / columns) * size;
    const scale = devicePixelRatio;
    this.#canvas.width = Math.round(width * scale);
    this.#canvas.height = Math.round(height * scale);
    this.#canvas.style.height = `${height}px`;
    const brush = this.#canvas.getContext("2d");
    brush.scale(scale, scale);
    const colours = coloursOf(this.#canvas);
    this.#cells.forEach((cell, place) => {
      const left = (place % columns) * size;
      const top = Math.floor(place / columns) * size;
      paintCell(brush, cell, { left, top, side: size - (size > 9 ? 2 : 1) }, this.#pool.page_size, colours);
    });
    this.#outline(brush, colours);
  }

  /** A ring round the chosen cell, and thin ones round the others of its first owner. */
  #outline(brush, colours) {
    const chosen = this.#marked;
    if (chosen === undefined) return;
    const { size, columns } = this.#grid;
    const owner = chosen.owners[0];
    this.#cells.forEach((cell, place) => {
      if (cell !== chosen && !(owner !== undefined && cell.owners.includes(owner))) return;
      brush.strokeStyle = colours.ink;
      brush.lineWidth = cell === chosen ? 2.5 : 1;
      brush.strokeRect((place % columns) * size, Math.floor(place / columns) * size, size - 1.5, size - 1.5);
    });
  }

  get #marked() {
    return this.#cells[this.#pointed ?? this.#chosen];
  }

  #placeOf(event) {
    const box = this.#canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.#grid.size);
    const row = Math.floor((event.clientY - box.top) / this.#grid.size);
    const place = row * this.#grid.columns + column;
    return column < this.#grid.columns && place in this.#cells ? place : null;
  }

  #press(event) {
    const rows = { ArrowUp: -this.#grid.columns, ArrowDown: this.#grid.columns };
    const step = STEPS[event.key] ?? rows[event.key];
    if (event.key === "Escape") this.#mark(null, null);
    if (step === undefined) return;
    event.preventDefault();
    const place = this.#chosen === null ? 0 : this.#chosen + step;
    this.#mark(null, Math.max(0, Math.min(this.#cells.length - 1, place)));
  }

  #mark(pointed, chosen) {
    if (pointed === this.#pointed && chosen === this.#chosen) return;
    this.#pointed = pointed;
    this.#chosen = chosen;
    this.#draw();
  }

  #tellDetail() {
    const cell = this.#marked;
    const detail = cell === undefined ? INVITATION : describe(cell, this.#pool);
    if (detail === this.#detail) return;
    this.#detail = detail;
    setText("page-detail", detail);
  }
}

function coloursOf(element) {
  const style = getComputedStyle(element);
  const names = [...STATES, "panel", "ink"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`)]));
}

/** Pages fill their cell from the bottom up; what they have room for is pale. */
function paintCell(brush, cell, { left, top, side }, pageSize, colours) {
  brush.strokeStyle = colours.free;
  brush.lineWidth = 1;
  brush.strokeRect(left + 0.5, top + 0.5, side - 1, side - 1);
  let bottom = top + side;
  for (const state of FILLED) {
    const height = (side * cell[state]) / cell.count;
    const fill = cell.count === 1 ? cell.tokens / pageSize : 1;
    brush.fillStyle = colours[state];
    brush.globalAlpha = 0.25;
    brush.fillRect(left, bottom - height, side, height);
    brush.globalAlpha = 1;
    brush.fillRect(left, bottom - height * fill, side, height * fill);
    bottom -= height;
  }
  if (side > 8) paintMark(brush, cell, { left, top, side }, colours);
}

/** What tells the states apart without colour: a dot where shared, a stroke where cached. */
function paintMark(brush, cell, { left, top, side }, colours) {
  if (cell.shared === cell.count) {
    brush.fillStyle = colours.panel;
    brush.beginPath();
    brush.arc(left + side / 2, top + side / 2, side / 7, 0, 2 * Math.PI);
    brush.fill();
  } else if (cell.cached === cell.count) {
    brush.strokeStyle = colours.panel;
    brush.beginPath();
    brush.moveTo(left, top + side);
    brush.lineTo(left + side, top);
    brush.stroke();
  }
}

function describe(cell, pool) {
  const owners = cell.owners.map((place) => pool.owners[place]).join(", ");
  const others = cell.holders > cell.owners.length ? " and others" : "";
  const held = owners === "" ? "" : `, held by ${owners}${others}`;
  if (cell.count === 1) {
    const state = STATES.find((name) => cell[name] === 1);
    const fill = state === "free" ? "" : `, ${cell.tokens} of ${pool.page_size} tokens`;
    return `Page ${count(cell.first)}: ${state}${fill}${held}`;
  }
  const states = STATES.filter((name) => cell[name] > 0).map((name) => `${count(cell[name])} ${name}`);
  const last = cell.first + cell.count - 1;
  return `Pages ${count(cell.first)} to ${count(last)}: ${states.join(", ")}${held}`;
}
