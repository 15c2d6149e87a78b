// Programs of the book open in the playground, where they lie beside it.
(async () => {
  const root = typeof path_to_root === "string" ? path_to_root : "";
  for (const code of document.querySelectorAll("code.language-msccl")) {
    const text = code.textContent;
    if (!text.includes("algorithm ")) continue;
    const address = `${root}playground.html#=${encodeURIComponent(text)}`;
    const link = document.createElement("a");
    link.href = address;
    link.textContent = "Try it here";
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const frame = document.createElement("iframe");
      frame.className = "playground";
      frame.title = "playground";
      frame.src = address;
      line.replaceChildren(frame);
    });
    const line = document.createElement("p");
    line.className = "try";
    line.append(link, " (the real prover, in your browser)");
    code.parentElement.after(line);
  }
})();
