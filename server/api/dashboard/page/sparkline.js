// A small line of the last minute's figures.

const SVG = "http://www.w3.org/2000/svg";
const POINTS = 120;
const HEIGHT = 100;

export class Sparkline {
  #values = [];
  #area = shape("area");
  #line = shape("line");

  constructor(id) {
    const chart = document.getElementById(id);
    chart.setAttribute("viewBox", `0 0 ${POINTS - 1} ${HEIGHT}`);
    chart.setAttribute("preserveAspectRatio", "none");
    chart.append(this.#area, this.#line);
  }

  /** One more figure; null leaves a gap at the bottom. */
  add(value) {
    this.#values = [...this.#values, value ?? 0].slice(-POINTS);
    const highest = Math.max(...this.#values, 1e-9);
    const start = POINTS - this.#values.length;
    const points = this.#values.map(
      (figure, place) => `${start + place},${(HEIGHT * (1 - figure / highest)).toFixed(1)}`,
    );
    const path = `M${points.join("L")}`;
    this.#line.setAttribute("d", path);
    this.#area.setAttribute("d", `${path}L${POINTS - 1},${HEIGHT}L${start},${HEIGHT}Z`);
  }
}

function shape(kind) {
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("class", kind);
  return path;
}
