// The chat page: one conversation, kept in memory, one answer at a time.

import { Rendering } from "/page/markdown.js";
import { completion } from "/page/stream.js";

const HEALTH_INTERVAL_MS = 3000;
const STICK_TO_END_PX = 48;

const $ = (id) => document.getElementById(id);
const scroll = $("scroll");
const log = $("log");
const welcome = $("welcome");
const input = $("input");
const send = $("send");
const stop = $("stop");

let model = null;       // name, once the server is ready
let messages = [];      // the conversation as the API takes it
let answering = null;   // AbortController of the answer in progress

// The server ------------------------------------------------------------------------------------

async function watchServer() {
  for (;;) {
    try {
      const health = await fetch("/health", { cache: "no-store" });
      if (health.ok) {
        const list = await (await fetch("/v1/models", { cache: "no-store" })).json();
        model = list.data[0].id;
        show("ready", model);
      } else {
        model = null;
        show("waiting", (await health.json()).error.message.toLowerCase());
      }
    } catch {
      model = null;
      show("lost", "no connection to the server");
    }
    await new Promise((done) => { setTimeout(done, HEALTH_INTERVAL_MS); });
  }
}

function show(state, text) {
  if ($("state-text").textContent !== text) {
    $("state").dataset.state = state;
    $("state-text").textContent = text;
    $("state-text").title = text;
  }
  refresh();
}

// Turns -----------------------------------------------------------------------------------------

function addTurn(kind) {
  const turn = document.createElement("article");
  turn.className = `turn ${kind}`;
  turn.setAttribute("aria-label", kind === "user" ? "You" : "Answer");
  log.append(turn);
  welcome.hidden = true;
  return turn;
}

function ask(text) {
  if (messages.at(-1)?.role === "user") {
    messages.pop();  // it was never answered, and turns must alternate
  }
  messages.push({ role: "user", content: text });
  addTurn("user").textContent = text;
  answer();
}

async function answer() {
  const turn = addTurn("answer");
  const view = new AnswerView(turn);
  const controller = new AbortController();
  const conversation = messages;
  answering = controller;
  refresh();
  scrollToEnd();
  try {
    for await (const chunk of completion(model, conversation, controller.signal)) {
      view.take(chunk);
    }
    view.end();
  } catch (error) {
    if (controller.signal.aborted) {
      view.end("stopped");
    } else {
      view.end();
      addProblem(turn, error.message);
    }
  }
  if (conversation !== messages) {
    return;  // a new chat has begun meanwhile
  }
  if (view.text) {
    messages.push({ role: "assistant", content: view.text });
  }
  answering = null;
  refresh();
}

function addProblem(turn, message) {
  const problem = document.createElement("div");
  problem.className = "problem";
  problem.setAttribute("role", "alert");
  problem.textContent = message;
  const again = document.createElement("button");
  again.type = "button";
  again.textContent = "Try again";
  again.addEventListener("click", () => {
    if (answering || !model) {
      return;
    }
    turn.remove();
    if (messages.at(-1)?.role === "assistant") {
      messages.pop();
    }
    answer();
  });
  problem.append(again);
  turn.append(problem);
  stickToEnd(scrollToEnd);
}

/** One answer as it grows: its text, and how fast it came. */
class AnswerView {
  text = "";
  #turn;
  #rendering;
  #facts;
  #waiting;
  #asked = performance.now();
  #first = null;
  #last = null;
  #tokens = 0;       // chunks with text while streaming, the server's count at the end
  #scheduled = false;

  constructor(turn) {
    this.#turn = turn;
    turn.setAttribute("aria-busy", "true");
    const body = document.createElement("div");
    body.className = "text";
    this.#waiting = document.createElement("div");
    this.#waiting.className = "waiting";
    this.#waiting.append(...[1, 2, 3].map(() => document.createElement("i")));
    this.#facts = document.createElement("p");
    this.#facts.className = "facts";
    this.#facts.hidden = true;
    turn.append(this.#waiting, body, this.#facts);
    this.#rendering = new Rendering(body);
  }

  take(chunk) {
    const piece = chunk.choices[0]?.delta?.content;
    if (piece) {
      this.#last = performance.now();
      this.#first ??= this.#last;
      this.#tokens += 1;
      this.text += piece;
      this.#schedule();
    }
    if (chunk.usage) {
      this.#tokens = chunk.usage.completion_tokens;
    }
  }

  end(note) {
    this.#paint();
    this.#waiting.remove();
    this.#turn.removeAttribute("aria-busy");
    if (note) {
      this.#facts.hidden = false;
      this.#facts.append(this.#facts.textContent ? ` · ${note}` : note);
    }
  }

  #schedule() {
    if (!this.#scheduled) {
      this.#scheduled = true;
      requestAnimationFrame(() => this.#paint());
    }
  }

  #paint() {
    this.#scheduled = false;
    if (this.#first === null) {
      return;
    }
    stickToEnd(() => {
      this.#waiting.hidden = true;
      this.#rendering.update(this.text);
      this.#facts.hidden = false;
      this.#facts.textContent = this.#speed();
    });
  }

  #speed() {
    const parts = [`first token ${((this.#first - this.#asked) / 1000).toFixed(2)} s`];
    const seconds = (this.#last - this.#first) / 1000;
    if (this.#tokens > 1 && seconds > 0) {
      parts.push(`${((this.#tokens - 1) / seconds).toFixed(1)} tokens/s`);
    }
    parts.push(this.#tokens === 1 ? "1 token" : `${this.#tokens} tokens`);
    return parts.join(" · ");
  }
}

// Scrolling -------------------------------------------------------------------------------------

function stickToEnd(change) {
  const atEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < STICK_TO_END_PX;
  change();
  if (atEnd) {
    scrollToEnd();
  }
}

function scrollToEnd() {
  scroll.scrollTop = scroll.scrollHeight;
}

// Controls --------------------------------------------------------------------------------------

function refresh() {
  send.hidden = answering !== null;
  stop.hidden = answering === null;
  send.disabled = !model || !input.value.trim();
  for (const idea of document.querySelectorAll(".idea")) {
    idea.disabled = !model;
  }
}

function fitInput() {
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight}px`;
}

function submit() {
  const text = input.value.trim();
  if (!text || !model || answering) {
    return;
  }
  input.value = "";
  fitInput();
  ask(text);
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});

input.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  }
});

input.addEventListener("input", () => {
  fitInput();
  refresh();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    answering?.abort();
  }
});

stop.addEventListener("click", () => {
  answering?.abort();
  input.focus();
});

$("new-chat").addEventListener("click", () => {
  answering?.abort();
  answering = null;
  messages = [];
  log.replaceChildren();
  welcome.hidden = false;
  refresh();
  input.focus();
});

for (const idea of document.querySelectorAll(".idea")) {
  idea.addEventListener("click", () => {
    if (model && !answering) {
      ask(idea.textContent);
    }
  });
}

refresh();
watchServer();
if (matchMedia("(hover: hover)").matches) {
  input.focus();
}
