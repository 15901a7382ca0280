// Shared by every component. All text goes in through textContent: keys, hosts and jobs are foreign input.
const SVG = "http://www.w3.org/2000/svg";
const LABELS = { orphaned: "orphaned", no_ttl: "no TTL", stalled: "stalled", overdue: "overdue", held: "held" };
// One shape a state, so that no state is told by colour alone.
const SHAPES = {
  orphaned: "M2 2 L10 10 M10 2 L2 10",
  no_ttl: "M6 6 C4 2.5 0.8 3.5 0.8 6 C0.8 8.5 4 9.5 6 6 C8 2.5 11.2 3.5 11.2 6 C11.2 8.5 8 9.5 6 6",
  stalled: "M3.5 1.5 L3.5 10.5 M8.5 1.5 L8.5 10.5",
  overdue: "M6 0.9 A5.1 5.1 0 1 1 5.99 0.9 M6 3 L6 6.2 L8.4 7.6",
  held: "M3.2 5.4 L8.8 5.4 L8.8 10.6 L3.2 10.6 Z M4.3 5.2 L4.3 3.4 A1.7 1.9 0 0 1 7.7 3.4 L7.7 5.2",
};

function el(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function attr(node, name, value) {
  if (value === null || value === undefined || value === "") node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

function icon(path, box) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", box || "0 0 12 12");
  svg.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", path);
  for (const [name, value] of [["fill", "none"], ["stroke", "currentColor"], ["stroke-width", "1.7"],
    ["stroke-linecap", "round"], ["stroke-linejoin", "round"]]) shape.setAttribute(name, value);
  svg.append(shape);
  return svg;
}

function setBadge(node, state) {
  if (node.dataset.state === state) return;
  node.className = "badge";
  node.dataset.state = state;
  node.replaceChildren(icon(SHAPES[state] || SHAPES.held), el("span", "", LABELS[state] || state));
}

function duration(seconds) {
  if (seconds < 0) return "-" + duration(-seconds);
  if (seconds < 9.95) return seconds.toFixed(1) + " s";
  if (seconds < 59.5) return seconds.toFixed(0) + " s";
  const whole = Math.round(seconds);
  const two = (big, unit, small, smallUnit) => {
    const rest = Math.floor((whole % big) / small);
    return `${Math.floor(whole / big)}${unit} ${String(rest).padStart(2, "0")}${smallUnit}`;
  };
  if (whole >= 86400) return two(86400, "d", 3600, "h");
  if (whole >= 3600) return two(3600, "h", 60, "m");
  return two(60, "m", 1, "s");
}

// Brings `parent` to show one node for each item, in order, reusing nodes by name: focus and scroll stay.
function reconcile(parent, items, nameOf, make, update) {
  const old = new Map();
  for (const node of parent.children) old.set(node.dataset.name, node);
  let next = parent.firstElementChild;
  for (const item of items) {
    const name = nameOf(item);
    let node = old.get(name);
    if (node) old.delete(name);
    else {
      node = make(item);
      node.dataset.name = name;
    }
    if (node === next) next = next.nextElementSibling;
    else parent.insertBefore(node, next);
    update(node, item);
  }
  while (next) {  // whatever is left was not asked for; a name that came twice has left two nodes
    const after = next.nextElementSibling;
    next.remove();
    next = after;
  }
}

// Fills a bar to a share, in steps that nobody sees: a bar that is drawn anew four times a second in each of
// fifty rows keeps the browser busier than all else on the page.
function fill(bar, share) {
  const width = `${Math.round(Math.max(0, Math.min(1, share)) * 200) / 2}%`;
  if (bar.style.width !== width) bar.style.width = width;
}

// The component's root, made once; `data` of the latest refresh and the server's clock are kept on it.
function rootOf(parentElement, data, build) {
  let root = [...parentElement.children].find((node) => node.classList.contains("ls"));
  if (!root) {
    root = el("div", "ls");
    parentElement.append(root);
    build(root);
  }
  root.data = data;
  if (data.now && data.now !== root.sentNow) {
    root.sentNow = data.now;
    root.skew = data.now - performance.now() / 1000;
  }
  return root;
}

function nowOf(root) {
  return performance.now() / 1000 + root.skew;
}

function every(root, milliseconds, work) {
  clearInterval(root.timer);
  work();
  root.timer = setInterval(() => {
    if (!root.isConnected) clearInterval(root.timer);
    else if (!document.hidden) work();
  }, milliseconds);
}

// Goes to another page of the explorer without loading everything anew: the address changes as at the browser's
// Back and Forward buttons, which Streamlit follows. Calling st.switch_page from a part that refreshes by itself
// would race with its next refresh. Should nobody follow, the page is loaded from the new address.
function go(root, href) {
  history.pushState(null, "", href);
  dispatchEvent(new PopStateEvent("popstate"));
  setTimeout(() => { if (root.isConnected) location.reload(); }, 5000);
}

function opensElsewhere(event) {
  return event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button !== 0;
}
