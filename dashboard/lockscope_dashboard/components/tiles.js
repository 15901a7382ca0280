function makeTile(item) {
  const tile = el(item.filter ? "button" : "div", "tile");
  if (item.filter) tile.type = "button";
  tile.dataset.state = item.state || "none";
  const label = el("div", "label");
  if (SHAPES[item.state]) label.append(icon(SHAPES[item.state]));
  label.append(el("span", "", item.label));
  const spark = document.createElementNS(SVG, "svg");
  spark.setAttribute("class", "spark");
  spark.setAttribute("viewBox", "0 0 100 30");
  spark.setAttribute("preserveAspectRatio", "none");
  spark.setAttribute("aria-hidden", "true");
  for (const name of ["area", "line"]) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", name);
    spark.append(path);
  }
  tile.append(spark, label, el("div", "value num"), el("div", "note"));
  return tile;
}

function drawSpark(tile, points) {
  const [area, line] = tile.querySelectorAll(".spark path");
  if (points.length < 2) {
    area.setAttribute("d", "");
    line.setAttribute("d", "");
    return;
  }
  const top = Math.max(...points, 1);
  const at = points.map((value, index) => `${((index / (points.length - 1)) * 100).toFixed(1)} ${(28 - (value / top) * 25).toFixed(1)}`);
  line.setAttribute("d", "M" + at.join(" L"));
  area.setAttribute("d", `M0 30 L${at.join(" L")} L100 30 Z`);
}

function updateTile(tile, item) {
  put(tile.querySelector(".value"), item.value);
  put(tile.querySelector(".note"), item.note);
  attr(tile, "title", item.title);
  attr(tile, "aria-pressed", item.filter ? String(item.chosen) : null);
  attr(tile, "data-alarm", item.alarm ? "1" : null);
  drawSpark(tile, item.points);
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = rootOf(parentElement, data, (made) => made.append(el("div", "tiles")));
  reconcile(root.firstElementChild, data.tiles, (item) => item.name, makeTile, updateTile);
  root.onclick = (event) => {
    const tile = event.target.closest("button.tile");
    if (tile) setTriggerValue("pick", tile.dataset.name);
  };
}
