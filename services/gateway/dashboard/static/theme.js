// Colours: the system's, light or dark. Runs before the page is shown, hence no module.
(() => {
  const KEY = "edgelora-theme";
  const root = document.documentElement;

  function saved() {
    try {
      return localStorage.getItem(KEY) ?? "auto";
    } catch {
      return "auto"; // storage is switched off
    }
  }

  function choose(theme) {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
  }

  choose(saved());
  document.addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("theme");
    select.value = root.dataset.theme ?? "auto";
    select.addEventListener("change", () => {
      choose(select.value);
      try {
        localStorage.setItem(KEY, select.value);
      } catch {
        // it holds for this page only
      }
    });
  });
})();
