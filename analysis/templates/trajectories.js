"use strict";
// Episodes are hostile text: everything goes through textContent, nothing is parsed as HTML.
const MOST_SHOWN = 500;
const episodes = JSON.parse(document.getElementById("data").textContent);
const field = (name) => document.getElementById(name);
const CHOICES = ["run", "set", "task", "type", "zone"];
const place = (each) => (each.step === null ? each.set : `step ${each.step}`);

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function fillChoices() {
  for (const name of CHOICES) {
    for (const value of [...new Set(episodes.map((each) => each[name]))].sort()) {
      const option = element("option", value);
      option.value = value;
      field(name).append(option);
    }
  }
}

function wanted(each) {
  const search = field("search").value.toLowerCase();
  const bound = (name, otherwise) => (field(name).value === "" ? otherwise : Number(field(name).value));
  return (
    CHOICES.every((name) => field(name).value === "" || field(name).value === each[name]) &&
    each.reward >= bound("low", -Infinity) &&
    each.reward <= bound("high", Infinity) &&
    (search === "" || each.task.toLowerCase().includes(search) || each.text.toLowerCase().includes(search))
  );
}

function list() {
  const found = episodes.filter(wanted);
  const shown = found.slice(0, MOST_SHOWN);
  field("count").textContent =
    `${found.length} of ${episodes.length}` + (shown.length < found.length ? `, the first ${MOST_SHOWN} listed` : "");
  field("list").replaceChildren(...shown.map(entry));
}

function entry(each) {
  const item = element("li");
  const button = element("button");
  button.append(element("b", each.reward.toFixed(2)), ` ${place(each)} · ${each.zone} · ${each.type} · ${each.task} #${each.index}`);
  button.addEventListener("click", () => {
    for (const other of field("list").querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
    button.setAttribute("aria-current", "true");
    show(each);
  });
  item.append(button);
  return item;
}

function show(each) {
  const mean = each.mean === null ? "" : `, r̄ ${each.mean.toFixed(3)}`;
  const turns = each.turns.map((passed) => (passed ? "passed" : "failed")).join(", ");
  field("episode").replaceChildren(
    element("h2", `${each.task} #${each.index}`),
    element("p", `${each.run}, ${place(each)} · reward ${each.reward.toFixed(3)} · ${each.zone}${mean} · ${each.type} · ${each.finish}`, "soft"),
    element("p", `turns: ${turns || "none closed"} · codes: ${each.codes.join(" ")}`, "soft"),
    ...messages(each.text),
    ...tokenView(each),
  );
}

// The chat markers of ChatML and of Llama 3; a transcript in another format is one block.
function messages(text) {
  const parts = text.split(/<\|im_start\|>|<\|start_header_id\|>/).filter((part) => part.trim() !== "");
  return parts.map((part) => {
    const cut = part.match(/^(system|user|assistant|tool|ipython)(?:\n|<\|end_header_id\|>)/);
    const role = cut ? cut[1] : "";
    const block = element("div", undefined, `message ${role}`);
    if (role) block.append(element("span", role, "role"));
    block.append((cut ? part.slice(cut[0].length) : part).replace(/<\|(im_end|eot_id)\|>\s*$/, "").trim());
    return block;
  });
}

function tokenView(each) {
  if (each.tokens === null) return [element("p", "This run kept no tokens.", "soft")];
  const button = element("button", `show ${each.tokens.length} tokens; what the policy sampled is underlined`);
  button.id = "show-tokens";
  const shown = element("div");
  shown.id = "tokens";
  button.addEventListener("click", () => {
    shown.replaceChildren(
      ...each.tokens.map((token, index) => element("span", token, each.mask && each.mask[index] ? "sampled" : "")),
    );
  });
  return [button, shown];
}

// A page that leads here may choose: trajectories.html#task=NAME
function choose() {
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (CHOICES.includes(name)) field(name).value = value;
  }
}

fillChoices();
choose();
field("filters").addEventListener("input", list);
field("filters").addEventListener("reset", () => setTimeout(list));
field("filters").addEventListener("submit", (event) => event.preventDefault());
list();
field("list").querySelector("button")?.click();
