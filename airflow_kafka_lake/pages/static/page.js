// What a page does beside showing itself: Airflow's theme, the reader's time zone, finding rows, asking before it acts,
// and staying current. Everything is text when it comes from a document: nothing here writes HTML from strings.
"use strict";

(() => {
  // ---- the theme of the page that frames this one; before anything is drawn
  const root = document.documentElement;

  function theme() {
    let outer = null;
    try {
      if (window.parent !== window) outer = window.parent.document.documentElement;
    } catch { outer = null; }
    if (!outer) return;
    const take = () => {
      const named = ["dark", "light"].find((name) => outer.classList.contains(name));
      if (named) root.dataset.theme = named; else delete root.dataset.theme;
    };
    take();
    new MutationObserver(take).observe(outer, { attributes: true, attributeFilter: ["class"] });
  }

  theme();

  // ---- times in the reader's zone, UTC in the title
  const short = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  const relative = new Intl.RelativeTimeFormat(undefined, { style: "short" });
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

  // "5 min. ago", or "in 3 hr."
  function fromNow(at) {
    const seconds = (at - Date.now()) / 1000;
    const [unit, size] = units.find((each) => Math.abs(seconds) >= each[1]) || units.at(-1);
    return relative.format(Math.trunc(seconds / size), unit);
  }

  function localise(within) {
    for (const item of within.querySelectorAll("time[datetime]")) {
      const at = new Date(item.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      item.textContent = `${(item.dataset.exact === undefined ? short : exact).format(at)}, ${fromNow(at)}`;
    }
    for (const item of within.querySelectorAll("[data-zone]")) {
      item.textContent = `times of ${Intl.DateTimeFormat().resolvedOptions().timeZone}, this browser's zone`;
    }
  }

  // Airflow shows these pages in a frame that may not leave its place: its own page follows the link.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-airflow]");
    if (!link || window.parent === window || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const outer = window.parent.document.createElement("a");
    Object.assign(outer, { href: link.href, target: link.target });
    window.parent.document.body.append(outer);
    outer.click();
    outer.remove();
  });

  // ---- finding rows: by text, and by state
  const filter = { text: "", kinds: new Set() };

  function fits(row) {
    if (filter.kinds.size && !filter.kinds.has(row.dataset.kind)) return false;
    if (!filter.text) return true;
    const key = (row.dataset.key || "").toLowerCase();
    const byNumber = /^\d+$/.test(filter.text) && key.includes("/");
    return byNumber ? key.endsWith("/" + filter.text) : key.includes(filter.text);
  }

  function sift(within) {
    const asked = Boolean(filter.text || filter.kinds.size);
    let found = 0;
    for (const row of within.querySelectorAll("[data-kind]")) {
      row.hidden = asked && !fits(row);
      if (!row.hidden) found += 1;
    }
    for (const fold of within.querySelectorAll("[data-fold]")) {
      const some = !asked || fold.querySelector("[data-kind]:not([hidden])");
      fold.hidden = !some;
      const details = fold.querySelector("details");
      if (asked && some && !details.open) { details.open = true; details.dataset.byFilter = ""; }
      if (!asked && details.dataset.byFilter !== undefined) { details.open = false; delete details.dataset.byFilter; }
    }
    for (const list of within.querySelectorAll("[data-sifted]")) {
      list.hidden = asked && !list.querySelector("[data-kind]:not([hidden])");
    }
    const count = within.querySelector("#found");
    if (count) count.textContent = asked ? `${found.toLocaleString()} found` : "";
    for (const chip of within.querySelectorAll("[data-only]")) {
      chip.setAttribute("aria-pressed", String(filter.kinds.has(chip.dataset.only)));
    }
  }

  // ---- the newer page into this one: what is equal stays as it is, with its focus and its scroll
  function merge(old, fresh) {
    if (old.dataset.keep !== undefined) return;
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    mergeChildren(old, fresh);
  }

  const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || "" : "");

  function mergeChildren(old, fresh) {
    const keyed = new Map();
    for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
    let place = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      let mine = keyOf(next) ? keyed.get(keyOf(next)) : place;
      if (!keyOf(next) && mine && (keyOf(mine) || mine.nodeName !== next.nodeName)) mine = null;
      if (mine && mine.nodeName !== next.nodeName) mine = null;
      if (!mine) {
        old.insertBefore(next, place);
        if (next.nodeType === Node.ELEMENT_NODE && next.dataset.kind) next.classList.add("fresh");
        continue;
      }
      if (mine === place) place = place.nextSibling; else old.insertBefore(mine, place);
      if (mine.nodeType !== Node.ELEMENT_NODE) {
        if (mine.nodeValue !== next.nodeValue) mine.nodeValue = next.nodeValue;
      } else if (!mine.isEqualNode(next)) merge(mine, next);
    }
    while (place) {
      const after = place.nextSibling;
      place.remove();
      place = after;
    }
  }

  // ---- staying current
  let tag = null;
  let timer = null;
  let waiting = 0;
  let seen = null;

  function said(state, text) {
    const live = document.getElementById("live");
    if (!live) return;
    if (live.dataset.state !== state) live.dataset.state = state;
    if (live.textContent !== text) live.textContent = text;
  }

  function again() {
    clearTimeout(timer);
    const seconds = Number(document.body.dataset.poll) || 0;
    if (seconds) timer = setTimeout(refresh, 1000 * (waiting || seconds));
  }

  async function refresh() {
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const headers = { Accept: "text/html" };
      if (tag) headers["If-None-Match"] = tag;
      const answer = await fetch(location.href.split("#")[0], { headers, credentials: "same-origin", cache: "no-store" });
      if (answer.status === 401 || (answer.redirected && new URL(answer.url).pathname !== location.pathname)) {
        said("lost", "You are logged out: reload the page to go on");
        return;
      }
      localise(document);
      if (answer.status !== 304) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("main");
        if (!answer.ok || !fresh) throw new Error(page.querySelector("h1")?.textContent || `answer ${answer.status}`);
        tag = answer.headers.get("ETag");
        localise(fresh);
        sift(fresh);
        merge(document.getElementById("main"), fresh);
        document.body.dataset.poll = page.body.dataset.poll;
        document.body.dataset.csrf = page.body.dataset.csrf;
        document.title = page.title;
      }
      seen = new Date();
      waiting = 0;
      said("live", "live");
      document.getElementById("live").title = `as of ${exact.format(seen)}`;
    } catch (problem) {
      waiting = Math.min(60, Math.max(2, 2 * waiting));
      const since = seen ? ` What you see is of ${exact.format(seen)}.` : "";
      const reason = problem instanceof TypeError ? "the server does not answer" : problem.message;
      said("lost", `Connection lost: ${reason}.${since} Trying again.`);
    }
    again();
  }

  // ---- asking before it acts
  let act = null;
  const ask = (id) => document.getElementById(`ask-${id}`);

  function item(text) {
    const line = document.createElement("li");
    line.textContent = text;
    return line;
  }

  function input(field) {
    const label = document.createElement("label");
    const box = document.createElement(field.options.length ? "select" : "input");
    for (const option of field.options) box.add(new Option(option || "all", option));
    box.id = `ask-field-${field.name}`;
    box.name = field.name;
    box.dataset.as = field.kind;
    box.addEventListener("change", tryFirst);
    if (field.kind === "flag") {
      box.type = "checkbox";
      label.className = "flag";
      label.append(box, ` ${field.label}`);
      return [label];
    }
    label.textContent = field.label;
    label.htmlFor = box.id;
    box.value = field.value;
    if (field.hint) box.placeholder = field.hint;
    box.required = field.required;
    return [label, box];
  }

  // "0, 3, 7-9" as numbers; what is none of that is an error in words.
  function partitions(text) {
    const found = new Set();
    for (const part of text.split(/[\s,]+/).filter(Boolean)) {
      const match = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part);
      if (!match) throw new Error(`"${part}" is no partition: write numbers, as in 0, 3, 7-9`);
      const last = Number(match[2] ?? match[1]);
      if (last - Number(match[1]) > 100000) throw new Error(`"${part}" are too many partitions`);
      for (let number = Number(match[1]); number <= last; number += 1) found.add(number);
    }
    return [...found];
  }

  function body(more) {
    const given = { ...act.body, ...more };
    for (const box of ask("fields").querySelectorAll("input, select")) {
      const text = box.value.trim();
      if (box.dataset.as === "flag") { if (box.checked) given[box.name] = true; }
      else if (text && !(box.dataset.as === "partitions" && text === "all")) {
        given[box.name] = box.dataset.as === "partitions" ? partitions(text) : text;
      }
    }
    return given;
  }

  async function send(given) {
    const answer = await fetch(act.url, {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", "X-Kafka-Lake-Token": document.body.dataset.csrf },
      body: JSON.stringify(given),
    });
    let found = null;
    try { found = await answer.json(); } catch { found = null; }
    if (answer.ok && found) return found;
    throw new Error(found?.error?.message
      || `The server answered ${answer.status}, and not what came of it. Look at the page again before you repeat it.`);
  }

  const count = (number, noun) => `${number.toLocaleString()} ${noun}${number === 1 ? "" : "s"}`;
  const places = (done) => done.streams.map((one) => `${one.topic}/${one.partition}`).slice(0, 5).join(", ")
    + (done.streams.length > 5 ? ` and ${count(done.streams.length - 5, "more partition")}` : "");

  // What a command did, or in a dry run would do, from its document.
  const told = {
    cancel: (done) => [`${count(done.cancelled.length, "range")} on hold now.`],
    release: (done) => [`${count(done.released.length, "range")} planned again in wave ${done.wave}: the next run reads them.`],
    retry: (done) => [({
      released: `It is planned again as wave ${done.wave}.`,
      adopted: "Its commit is in the table: it is recorded as landed, and nothing is left to do.",
      returned: "Nothing of it is in the table.",
      waiting: "No worker has it.",
    })[done.ready] || `It is ${done.ready}.`,
      ...(done.ready === "adopted" ? [] : ["Nothing reads it yet: the next run without bounds does, by its Dag's schedule or when somebody starts one."]),
    ],
    pause: (done) => [
      done.changed ? "Nothing new is begun from now on." : "It was paused already.",
      ...(done.at_work.length ? [`${count(done.at_work.length, "wave")} being read: allowed to end.`] : []),
      ...(done.stopped.length ? [`${count(done.stopped.length, "wave")} taken from the worker, and planned still: a commit that was on its way may still land, and the next run finds it.`] : []),
      ...(done.landed.length ? [`${count(done.landed.length, "wave")} turned out to be in the table.`] : []),
    ],
    resume: (done) => [done.changed
      ? `Tasks that wait for it go on, and the next run reads all that is missing${done.waiting ? `, ${count(done.waiting, "planned wave")} first` : ""}.` : "It was not paused."],
    skip: (done) => [
      `${count(done.skipped, "offset")} of ${places(done)} ${done.dry_run ? "would be skipped" : "skipped"}.`,
      ...(done.skipped ? [] : ["All of them are in the table, or were skipped before: what has landed is not skipped."]),
      ...(done.waves.length ? [`${count(done.waves.length, "wave")} ${done.dry_run ? "would go" : "goes"} on with the rest.`] : []),
    ],
    reopen: (done) => [
      `${count(done.reopened, "offset")} of ${places(done)}${done.rows === undefined ? "" : `, with ${count(done.rows, "row")} in the table,`} ${done.dry_run ? "would be read again" : "will be read again by the next run"}.`,
      ...(done.started || []).length ? ["Later segments are in the table already: their order after what is read again is not kept."] : [],
    ],
    withdraw: (done) => [
      `${count(done.offsets, "offset")} in ${count(done.ranges, "range")} ${done.dry_run ? "would be taken" : "taken"} off the plan.`,
      ...(done.kept.length ? [`${count(done.kept.length, "range")} ${done.dry_run ? "would stay" : "stay"} planned: ${done.kept[0].reason}`] : []),
    ],
  };

  function sentences(done) {
    try { return told[act.command](done); } catch { return ["The server has accepted it, and what came of it is not known here: look at the page."]; }
  }

  function answered(kind, text) {
    ask("answer").className = kind;
    ask("answer").textContent = text;
  }

  const why = (problem) => (problem instanceof TypeError
    ? "The server does not answer. Look at the page again before you repeat it." : problem.message);

  // A second click with the same id is answered as the first, and decides nothing.
  const unique = () => `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;

  // Where a dry run has nothing to do, there is nothing to press, and no consequence.
  function say(effects, idle = false) {
    ask("do").hidden = idle;
    ask("lines").replaceChildren(...[...effects, ...(idle ? [] : act.consequences)].filter(Boolean).map(item));
  }

  let tried = 0;
  async function tryFirst(event) {
    const mine = (tried += 1);
    act.shown = null;
    say([act.asks]);
    answered("", "");
    const complete = [...ask("fields").querySelectorAll("input, select")].every((box) => box.checkValidity());
    if (!act.asks || !complete) return;
    try {
      const given = body({ dry_run: true, reason: "dry run on the page" });
      const dry = await send(given);
      if (tried === mine) { act.shown = dry.shown; say(sentences(dry), dry.skipped === 0 && !given.acknowledge_order); }
    } catch (problem) {
      // Where nothing was typed yet, nothing is wrong: there is nothing to do now.
      if (tried === mine) answered(event ? "failed" : "", why(problem));
    }
  }

  function open(button) {
    act = JSON.parse(button.dataset.act);
    act.request = unique();
    ask("title").textContent = act.title;
    ask("fields").replaceChildren(...act.fields.flatMap(input));
    ask("reason").value = "";
    ask("reason").disabled = false;
    ask("do").textContent = act.label.replace(" …", "");
    ask("do").className = act.grave ? "grave" : "main";
    ask("do").disabled = false;
    ask("close").textContent = "Do nothing";
    answered("", "");
    document.getElementById("ask").showModal();
    (ask("fields").querySelector("input, select") || ask("reason")).focus();
    tryFirst();
  }

  async function decide(event) {
    event.preventDefault();
    if (ask("do").hidden) return;
    const reason = ask("reason").value.trim();
    if (!reason) { answered("failed", "Give a reason: it is recorded with your name."); ask("reason").focus(); return; }
    ask("do").disabled = true;
    if (act.asks && !act.shown) {
      // No person decides about what he has not seen: it is shown now, and decided with the next press.
      await tryFirst(event);
      ask("do").disabled = false;
      if (act.shown && !ask("do").hidden) answered("", "This is what it would do. Press again to decide.");
      return;
    }
    tried += 1;
    answered("", "…");
    try {
      const what = await send(body({ reason, request: act.request, ...(act.shown && { shown: act.shown }) }));
      const done = sentences(what);
      if (what.changed !== false) done.push("Recorded with your name and reason.");
      ask("lines").replaceChildren();
      answered("ok", done.join("\n"));
      ask("do").hidden = true;
      ask("reason").disabled = true;
      ask("close").textContent = "Close";
      ask("close").focus();
      refresh();
    } catch (problem) {
      answered("failed", why(problem));
      act.shown = null;
      ask("do").disabled = false;
    }
  }

  // ---- going on after a dry run: Airflow's own API, in the reader's name; its refusals are shown as they are
  const goOn = (id) => document.getElementById(`go-on-${id}`);

  async function airflow(method, url, sent) {
    const answer = await fetch(url, {
      method,
      credentials: "same-origin",
      headers: { Accept: "application/json", "Content-Type": "application/json" },
      body: sent && JSON.stringify(sent),
    });
    let found = null;
    try { found = await answer.json(); } catch { found = null; }
    if (answer.ok && found) return found;
    const detail = found && found.detail;
    throw new Error(`Airflow answered ${answer.status}: ${typeof detail === "string" ? detail : JSON.stringify(detail)}`);
  }

  function goOnSaid(kind, ...parts) {
    goOn("answer").className = kind;
    goOn("answer").replaceChildren(...parts);
  }

  function fact(name, value) {
    const [box, term, words] = ["div", "dt", "dd"].map((tagName) => document.createElement(tagName));
    term.textContent = name;
    words.textContent = typeof value === "string" ? value : JSON.stringify(value);
    box.append(term, words);
    return box;
  }

  async function offer(box) {
    try {
      const run = await airflow("GET", box.dataset.asked);
      const { dry_run: dry, ...conf } = run.conf || {};
      const given = Object.entries(conf).filter(([, value]) => ![null, "", false].includes(value));
      goOn("conf").replaceChildren(...given.map(([name, value]) => fact(name, value)));
      if (dry !== true) { goOnSaid("", "This was no dry run: there is nothing to go on with."); return; }
      goOnSaid("", "It was a dry run and has written nothing. Read it now, and it is planned anew: what was read in the meantime is left out, and where the period has no end, records that have arrived since come with it.");
      goOn("do").hidden = false;
      goOn("do").addEventListener("click", () => start(box, conf));
    } catch (problem) {
      goOnSaid("failed", problem instanceof TypeError ? "Airflow does not answer: reload the page." : problem.message);
    }
  }

  async function start(box, conf) {
    goOn("do").disabled = true;
    goOnSaid("", "…");
    try {
      const run = await airflow("POST", box.dataset.runs, { logical_date: null, conf });
      const link = document.createElement("a");
      link.href = `${box.dataset.shown}/${encodeURIComponent(run.dag_run_id)}`;
      link.textContent = run.dag_run_id;
      goOn("do").hidden = true;
      goOnSaid("ok", "Airflow has the run: ", link, ". Whether it lands what it reads, its last task says.");
    } catch (problem) {
      const lost = problem instanceof TypeError;
      goOnSaid("failed", lost ? "Airflow did not answer. Look at the Dag's runs before you repeat it." : problem.message);
      goOn("do").disabled = lost;
    }
  }

  // ---- all together
  function clicked(event) {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.act) open(button);
    if (button.dataset.only) {
      if (!filter.kinds.delete(button.dataset.only)) filter.kinds.add(button.dataset.only);
      sift(document);
    }
  }

  function jump() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target && target.closest("details");
    if (folded) { folded.open = true; target.scrollIntoView({ block: "center" }); }
  }

  document.addEventListener("DOMContentLoaded", () => {
    localise(document);
    document.addEventListener("click", clicked);
    document.getElementById("find")?.addEventListener("input", (event) => {
      filter.text = event.target.value.trim().toLowerCase();
      sift(document);
    });
    const shown = document.getElementById("go-on");
    if (shown) offer(shown);
    const dialog = document.getElementById("ask");
    if (dialog) {
      dialog.querySelector("form").addEventListener("submit", decide);
      ask("close").addEventListener("click", () => dialog.close());
    }
    document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
    window.addEventListener("hashchange", jump);
    jump();
    seen = new Date();
    again();
  });
})();
