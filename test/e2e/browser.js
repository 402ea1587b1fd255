// SPDX-License-Identifier: MIT
// As much of a browser as the pages need. open(FILE) runs a page's scripts; what they made is in `made`, by id; what they drew, in `drawn`.
"use strict";
const fs = require("fs"), vm = require("vm");

function element(name) {
  return {
    name, style: {}, value: "", textContent: "", className: "", children: [],
    appendChild(child) { this.children.push(child); return child; },
    replaceChildren(...children) { this.children = children; },
    getBoundingClientRect: () => ({ left: 0, top: 0, width: 1000 }),
    scrollIntoView() {},
  };
}

exports.open = file => {
  const text = fs.readFileSync(file, "utf8"), data = /id="data">([^]*?)<\/script>/.exec(text)[1], made = {}, drawn = [];
  const scripts = [...text.matchAll(/<script>([^]*?)<\/script>/g)].map(([, script]) => script);
  const pen = { scale() {}, fillText(name, x, y) { drawn.push({ name, x, y }); }, fillRect(x, y, width, height) { drawn.push({ x, y, width, height }); } };
  const window = { location: { hash: "" } };
  const by_id = id => made[id] ||= Object.assign(element(id), { getContext: () => pen, children: [element("thead"), element("tbody")] });
  by_id("data").textContent = data;
  const document = { body: { clientWidth: 1000 }, createElement: element, getElementById: by_id, querySelector: () => null };
  vm.runInNewContext(scripts.join("\n").replaceAll('"use strict";', ""), { window, document, location: window.location });
  return { data: JSON.parse(data), made, drawn, window };
};
