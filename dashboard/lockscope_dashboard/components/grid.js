// A small table of facts. A cell is text, or {text, note, href, mono, sort, bar, badges, mark, title}.
function fillCell(cell, value, column) {
  const content = value === null || value === undefined ? { text: "" } : typeof value === "object" ? value : { text: String(value) };
  cell.className = [column.right ? "right num" : "", content.mono ? "mono" : "", column.long ? "long" : "", content.badges ? "badges" : ""].join(" ");
  attr(cell, "title", content.title);
  const print = JSON.stringify(content);
  if (cell.print === print) return;
  cell.print = print;
  cell.replaceChildren();
  if (content.mark) {
    const dot = el("span", "dot");
    dot.dataset.mark = content.mark;
    cell.append(dot);
  }
  for (const [state, number] of content.badges || []) {
    const badge = el("span");
    setBadge(badge, state);
    badge.title = LABELS[state] || state;
    if (number !== null) badge.lastElementChild.textContent = `${number} ${LABELS[state] || state}`;
    cell.append(badge);
  }
  if (content.href) {
    const link = el("a", "", content.text);
    link.href = content.href;
    cell.append(link);
  } else if (content.text) cell.append(el("span", content.mark && content.text.length < 24 ? "word" : "", content.text));
  if (content.note) cell.append(el("div", "note", content.note));
  if (typeof content.bar === "number") {
    const bar = el("div", "bar");
    const fill = el("i");
    fill.style.width = Math.max(0, Math.min(1, content.bar)) * 100 + "%";
    bar.append(fill);
    cell.append(bar);
  }
}

function sortValue(value) {
  if (value === null || value === undefined) return null;
  if (typeof value !== "object") return value;
  return value.sort ?? value.text ?? null;
}

function drawGrid(root) {
  const { columns, rows, empty } = root.data;
  const head = root.querySelector("thead tr");
  reconcile(head, columns, (column) => column.name, (column) => {
    const cell = el("th");
    cell.scope = "col";
    const button = el("button", "", column.label);
    button.type = "button";
    const arrow = el("span", "arrow");
    arrow.setAttribute("aria-hidden", "true");
    button.append(arrow);
    cell.append(button);
    return cell;
  }, (cell, column) => {
    cell.className = column.right ? "right" : "";
    const chosen = root.sort && root.sort.name === column.name;
    attr(cell, "aria-sort", chosen ? (root.sort.down ? "descending" : "ascending") : null);
    attr(cell, "title", column.help);
    put(cell.querySelector(".arrow"), chosen ? (root.sort.down ? " ▼" : " ▲") : "");
  });
  let ordered = rows;
  if (root.sort) {
    const direction = root.sort.down ? -1 : 1;
    ordered = [...rows].sort((a, b) => {
      const [x, y] = [sortValue(a.cells[root.sort.name]), sortValue(b.cells[root.sort.name])];
      if (x === null || y === null) return (x === null) - (y === null);
      return direction * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
    });
  }
  reconcile(root.querySelector("tbody"), ordered, (row) => row.name, () => el("tr"), (line, row) => {
    reconcile(line, columns, (column) => column.name, () => el("td"), (cell, column) => fillCell(cell, row.cells[column.name], column));
  });
  const none = root.querySelector(".empty");
  none.hidden = rows.length > 0;
  put(none, empty);
}

export default function ({ data, parentElement }) {
  const root = rootOf(parentElement, data, (made) => {
    const frame = el("div", "frame");
    frame.tabIndex = -1;
    const table = el("table");
    const head = el("thead");
    head.append(el("tr"));
    table.append(el("caption", "sr", data.caption), head, el("tbody"));
    frame.append(table, el("div", "empty"));
    made.append(frame);
  });
  drawGrid(root);
  root.onclick = (event) => {
    const header = event.target.closest("th");
    if (header) {
      const name = header.dataset.name;
      root.sort = { name, down: root.sort?.name === name ? !root.sort.down : Boolean(root.data.columns.find((column) => column.name === name)?.right) };
      return drawGrid(root);
    }
    const link = event.target.closest("a");
    if (!link || opensElsewhere(event)) return;
    event.preventDefault();
    go(root, link.getAttribute("href"));
  };
}
