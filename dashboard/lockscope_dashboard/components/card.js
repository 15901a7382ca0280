function buildCard(root) {
  const top = el("div", "top");
  top.append(el("span", "badge"), el("span", "key"));
  const clocks = el("div", "clocks");
  for (const [kind, name] of [["held", "Held for"], ["left", "Expires in"]]) {
    const clock = el("div", `clock ${kind}`);
    const bar = el("div", "bar");
    bar.append(el("i"));
    clock.append(el("div", "name", name), el("div", "big num"), el("div", "note"), bar);
    clocks.append(clock);
  }
  root.append(top, el("ul", "evidence"), clocks, el("dl"));
}

function countCard(root) {
  const { since, at_least: atLeast, expected, deadline, lease } = root.data;
  const now = nowOf(root);
  const held = root.querySelector(".held");
  const age = since === null ? null : Math.max(0, now - since);
  put(held.querySelector(".big"), age === null ? "unknown" : (atLeast ? "≥ " : "") + duration(age));
  const share = age === null || !expected ? null : Math.min(1, age / expected);
  held.querySelector(".bar").hidden = share === null;
  fill(held.querySelector("i"), share || 0);
  const left = root.querySelector(".left");
  attr(left, "data-none", deadline === null ? "1" : null);
  const rest = deadline === null ? 0 : deadline - now;
  put(left.querySelector(".big"), deadline === null ? "never" : rest <= 0 ? "expired" : duration(rest));
  fill(left.querySelector("i"), deadline === null ? 0 : rest / lease);
}

export default function ({ data, parentElement }) {
  const root = rootOf(parentElement, data, buildCard);
  root.dataset.state = data.state;
  setBadge(root.querySelector(".badge"), data.state);
  put(root.querySelector(".key"), data.key);
  reconcile(root.querySelector(".evidence"), data.evidence.map((line, index) => [String(index), line]), (item) => item[0], () => el("li"), (node, item) => put(node, item[1]));
  put(root.querySelector(".held .note"), data.held_note);
  put(root.querySelector(".left .note"), data.left_note);
  reconcile(root.querySelector("dl"), data.facts, (fact) => fact.label, () => {
    const pair = el("div");
    pair.append(el("dt"), el("dd"));
    return pair;
  }, (pair, fact) => {
    put(pair.firstElementChild, fact.label);
    put(pair.lastElementChild, fact.value);
    pair.lastElementChild.className = fact.mono ? "mono" : "";
    attr(pair, "title", fact.title);
  });
  every(root, 250, () => countCard(root));
  return () => clearInterval(root.timer);
}
