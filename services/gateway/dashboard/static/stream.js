// Follows /dash/stream. Silence, or an error, is a lost connection: it is said, and tried again.
const SILENCE_MS = 5000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;

/** `events`: name -> function of the document; `state` is told "live", "lost" or "connecting". */
export function follow(events, state) {
  let source = null;
  let watchdog;
  let retry;
  let pause = FIRST_PAUSE_MS;

  function open() {
    clearTimeout(retry);
    close();
    source = new EventSource("/dash/stream");
    for (const [name, take] of Object.entries(events)) {
      source.addEventListener(name, ({ data }) => {
        take(JSON.parse(data));
        if (name === "node") {
          pause = FIRST_PAUSE_MS;
          state("live");
        }
        expectMore();
      });
    }
    source.onerror = lose;
    expectMore();
  }

  function close() {
    clearTimeout(watchdog);
    source?.close();
    source = null;
  }

  function expectMore() {
    clearTimeout(watchdog);
    watchdog = setTimeout(lose, SILENCE_MS);
  }

  async function lose() {
    close();
    state("lost");
    clearTimeout(retry);
    retry = setTimeout(open, pause);
    pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    try {
      const answer = await fetch("/dash/session", { cache: "no-store" });
      if (answer.status === 401) location.assign("/login");
    } catch {
      // nobody answers: the next try will tell
    }
  }

  // Nobody looks at a hidden page: the node need not work for it.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      clearTimeout(retry);
      close();
    } else {
      state("connecting");
      open();
    }
  });
  state("connecting");
  open();
}
