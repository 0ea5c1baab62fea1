"use strict";

const collator = new Intl.Collator("en", { numeric: true });
const ORDERS = ["none", "ascending", "descending"];

// Numbers by their full value, words by the alphabet; what is not there stands last both ways.
function key(row, column) {
  const cell = row.cells[column];
  const value = cell.dataset.value;
  if (value !== undefined) return Number(value);
  return cell.scope === "row" || cell.classList.contains("words") ? cell.textContent : "";
}

function compare(one, other, sign) {
  if (one === "" || other === "") return (one === "") - (other === "");
  return sign * (typeof one === "number" && typeof other === "number" ? one - other : collator.compare(one, other));
}

function makeSortable(table) {
  const headings = [...table.querySelectorAll("th[data-column]")];
  const parts = [...table.tBodies].map((body) => ({
    body,
    rows: [...body.rows].filter((row) => !row.classList.contains("part")),
  }));
  const sort = (heading) => {
    const order = ORDERS[(ORDERS.indexOf(heading.getAttribute("aria-sort")) + 1) % ORDERS.length];
    for (const other of headings) other.setAttribute("aria-sort", other === heading ? order : "none");
    const sign = order === "descending" ? -1 : 1;
    for (const { body, rows } of parts) {
      const keyed = rows.map((row) => [key(row, Number(heading.dataset.column)), row]);
      if (order !== "none") keyed.sort(([one], [other]) => compare(one, other, sign));
      body.append(...keyed.map(([, row]) => row));
    }
  };
  for (const heading of headings) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.firstElementChild.textContent;
    if (!button.textContent) button.setAttribute("aria-label", "name");
    button.addEventListener("click", () => sort(heading));
    heading.firstElementChild.replaceWith(button);
    heading.setAttribute("aria-sort", "none");
  }
}

function makeSwitch(choice) {
  const inputs = [...choice.querySelectorAll(":scope > .switch input")];
  const options = [...choice.querySelectorAll(":scope > .option")];
  const show = () => options.forEach((option, index) => option.classList.toggle("shown", inputs[index].checked));
  choice.addEventListener("change", show);
  show();
}

// Where a page may not write to the clipboard, the text is selected for the old command.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function offerLatex(table) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "copy LaTeX";
  button.addEventListener("click", async () => {
    await copy(table.querySelector("template").content.textContent);
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy LaTeX"), 2000);
  });
  table.querySelector(".files").append(button);
}

function openLarge(event) {
  event.preventDefault();
  const dialog = document.body.appendChild(document.createElement("dialog"));
  const close = document.createElement("button");
  close.textContent = "close";
  const image = event.currentTarget.querySelector("img");
  const large = document.createElement("img");
  large.src = image.src;
  large.alt = image.alt;
  dialog.append(large, close);
  dialog.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
}

function followSections() {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) links.get(target.id).classList.toggle("here", isIntersecting);
    },
    { rootMargin: "-20% 0px -79% 0px" },
  );
  for (const section of document.querySelectorAll("main section")) observer.observe(section);
}

document.querySelectorAll("table").forEach(makeSortable);
document.querySelectorAll(".choice").forEach(makeSwitch);
document.querySelectorAll("figure.table").forEach(offerLatex);
document.querySelectorAll(".card").forEach((card) => card.addEventListener("click", openLarge));
followSections();
