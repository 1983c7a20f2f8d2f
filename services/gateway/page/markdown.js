// Shows a little Markdown: paragraphs, fenced code, inline code and bold. Text only ever becomes
// text nodes, so nothing a model writes can become markup.

/** Renders growing text into an element and touches only the blocks that changed. */
export class Rendering {
  #root;
  #shown = [];

  constructor(root) {
    this.#root = root;
  }

  update(text) {
    const blocks = split(text);
    blocks.forEach((block, index) => {
      const shown = this.#shown[index];
      if (shown && shown.kind === block.kind && shown.label === block.label) {
        if (shown.source !== block.source) {
          fill(shown.node, block);
        }
        this.#shown[index] = { ...block, node: shown.node };
        return;
      }
      const node = build(block);
      if (shown) {
        shown.node.replaceWith(node);
      } else {
        this.#root.append(node);
      }
      this.#shown[index] = { ...block, node };
    });
    for (const extra of this.#shown.splice(blocks.length)) {
      extra.node.remove();
    }
  }
}

function split(text) {
  const blocks = [];
  let lines = [];
  let fence = null;
  const close = (kind, label) => {
    const source = lines.join("\n");
    lines = [];
    if (kind === "code" || source.trim()) {
      blocks.push({ kind, label, source });
    }
  };
  for (const line of text.split("\n")) {
    const mark = /^\s{0,3}(`{3,})([^`]*)$/.exec(line);
    if (fence) {
      if (mark && mark[1].length >= fence.size && !mark[2].trim()) {
        close("code", fence.label);
        fence = null;
      } else {
        lines.push(line);
      }
    } else if (mark) {
      close("text", "");
      fence = { size: mark[1].length, label: mark[2].trim() };
    } else if (line.trim()) {
      lines.push(line);
    } else {
      close("text", "");
    }
  }
  close(fence ? "code" : "text", fence ? fence.label : "");
  return blocks;
}

function build(block) {
  if (block.kind === "text") {
    const paragraph = document.createElement("p");
    fill(paragraph, block);
    return paragraph;
  }
  const frame = element("div", "code");
  const head = element("div", "code-head");
  const label = element("span", "");
  label.textContent = block.label || "code";
  const copy = element("button", "copy");
  copy.type = "button";
  copy.textContent = "Copy";
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(frame.querySelector("code").textContent);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  copy.hidden = !navigator.clipboard;  // only pages from a secure origin may write to it
  head.append(label, copy);
  const pre = element("pre", "");
  pre.tabIndex = 0;
  pre.append(element("code", ""));
  frame.append(head, pre);
  fill(frame, block);
  return frame;
}

function fill(node, block) {
  if (block.kind === "code") {
    node.querySelector("code").textContent = block.source;
    return;
  }
  const parts = block.source.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/);
  node.replaceChildren(...parts.map((part, index) => {
    if (index % 2 === 0) {
      return document.createTextNode(part);
    }
    const code = part.startsWith("`");
    const inner = element(code ? "code" : "strong", "");
    inner.textContent = code ? part.slice(1, -1) : part.slice(2, -2);
    return inner;
  }));
}

function element(name, className) {
  const node = document.createElement(name);
  if (className) {
    node.className = className;
  }
  return node;
}
