const COLUMNS = [["state", "State"], ["key", "Lock"], ["holder", "Holder"], ["age", "Held for"], ["ttl", "Expires in"], ["renewals", "Renewals"]];

function buildTable(root) {
  const frame = el("div", "frame");
  const table = el("table");
  const caption = el("caption", "sr", "Live locks");
  const head = el("thead");
  const row = el("tr");
  for (const [name, label] of COLUMNS) {
    const cell = el("th", "c-" + name);
    cell.scope = "col";
    const button = el("button", "", label);
    button.type = "button";
    button.dataset.sort = name;
    const arrow = el("span", "arrow");
    arrow.setAttribute("aria-hidden", "true");
    button.append(arrow);
    cell.append(button);
    row.append(cell);
  }
  head.append(row);
  table.append(caption, head, el("tbody"));
  const empty = el("div", "empty");
  empty.hidden = true;
  frame.append(table, empty);
  const footer = el("footer");
  const nav = el("nav");
  nav.setAttribute("aria-label", "Pages");
  for (const [step, sign, label] of [["first", "«", "First page"], ["back", "‹", "Previous page"], ["on", "›", "Next page"], ["last", "»", "Last page"]]) {
    const button = el("button", "", sign);
    button.type = "button";
    button.dataset.step = step;
    button.setAttribute("aria-label", label);
    nav.append(button);
    if (step === "back") nav.append(el("span", "where num"));
  }
  footer.append(el("span", "range num"), nav);
  root.append(frame, footer);
}

function makeRow() {
  const row = el("tr");
  const state = el("td", "state");
  state.append(el("span", "badge"));
  const lock = el("td", "lock");
  lock.append(el("a", "key mono"), el("div", "sub where"), el("div", "why"));
  const holder = el("td", "holder");
  holder.append(el("div", "line who"), el("div", "sub line job"));
  const age = el("td", "age num");
  const ageBar = el("div", "bar");
  ageBar.append(el("i"));
  const ageText = el("span", "text");
  age.append(ageText, ageBar);
  const ttl = el("td", "ttl num");
  const ttlBar = el("div", "bar");
  ttlBar.append(el("i"));
  const ttlText = el("span", "text");
  ttl.append(ttlText, ttlBar);
  row.clocks = { ageText, ageBar, ttl, ttlText, ttlBar };  // four times a second nobody searches for them
  row.append(state, lock, holder, age, ttl, el("td", "renewals num"));
  return row;
}

function updateRow(row, item) {
  row.item = item;
  row.dataset.state = item.state;
  setBadge(row.querySelector(".state .badge"), item.state);
  row.querySelector(".state .badge").title = item.evidence;
  const link = row.querySelector("a.key");
  put(link, item.key);
  attr(link, "href", item.href);
  attr(link, "title", item.title);
  put(row.querySelector(".where"), item.where);
  put(row.querySelector(".why"), item.state === "held" ? "" : item.evidence.split("\n")[0]);
  const who = row.querySelector(".who");
  put(who, item.who);
  attr(who, "title", item.who_title);
  put(row.querySelector(".job"), item.job);
  attr(row.querySelector(".job"), "title", item.job);
  put(row.querySelector(".renewals"), String(item.renewals));
  attr(row.querySelector(".age"), "title", item.age_title);
  attr(row.querySelector(".ttl"), "title", item.ttl_title);
}

function countRow(row, now) {
  const item = row.item;
  const { ageText, ageBar, ttl, ttlText, ttlBar } = row.clocks;
  const age = item.since === null ? null : Math.max(0, now - item.since);
  put(ageText, age === null ? "unknown" : (item.at_least ? "≥ " : "") + duration(age));
  const share = age === null || !item.expected ? null : age / item.expected;
  attr(ageBar, "data-hidden", share === null ? "1" : null);
  if (share !== null) fill(ageBar.firstElementChild, share);
  attr(ttl, "data-none", item.deadline === null ? "1" : null);
  if (item.deadline === null) {
    put(ttlText, "never");
    fill(ttlBar.firstElementChild, 0);
    return;
  }
  const left = item.deadline - now;
  put(ttlText, left <= 0 ? "expired" : duration(left));
  fill(ttlBar.firstElementChild, left / item.lease);
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = rootOf(parentElement, data, buildTable);
  for (const cell of root.querySelectorAll("thead th")) {
    const name = cell.firstElementChild.dataset.sort;
    attr(cell, "aria-sort", data.sort === name ? (data.descending ? "descending" : "ascending") : null);
    put(cell.querySelector(".arrow"), data.sort === name ? (data.descending ? "▼" : "▲") : "");
  }
  reconcile(root.querySelector("tbody"), data.rows, (item) => item.name, makeRow, updateRow);
  const empty = root.querySelector(".empty");
  empty.hidden = data.rows.length > 0;
  put(empty, data.empty);
  put(root.querySelector(".range"), data.range);
  put(root.querySelector("nav .where"), `${data.page} / ${data.pages}`);
  root.querySelector("nav").hidden = data.pages <= 1;
  for (const button of root.querySelectorAll("nav button")) {
    button.disabled = ["first", "back"].includes(button.dataset.step) ? data.page <= 1 : data.page >= data.pages;
  }
  root.onclick = (event) => {
    const sort = event.target.closest("[data-sort]");
    if (sort) return setTriggerValue("sort", sort.dataset.sort);
    const step = event.target.closest("[data-step]");
    if (step) {
      const to = { first: 1, back: root.data.page - 1, on: root.data.page + 1, last: root.data.pages };
      return setTriggerValue("page", to[step.dataset.step]);
    }
    const row = event.target.closest("tbody tr");
    if (!row || opensElsewhere(event)) return;
    if (String(parentElement.getSelection?.() ?? document.getSelection()) !== "") return;
    event.preventDefault();
    go(root, row.item.href);
  };
  every(root, 250, () => {
    const now = nowOf(root);
    for (const row of root.querySelectorAll("tbody tr")) countRow(row, now);
  });
  return () => clearInterval(root.timer);
}
