// Tells the style of the page which theme it is in.
export default function ({ data }) {
  document.documentElement.dataset.lockscope = data.dark ? "dark" : "light";
}
