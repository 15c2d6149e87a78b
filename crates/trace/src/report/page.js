for (const button of document.querySelectorAll("button[data-zoom]")) {
  button.addEventListener("click", () => {
    const svg = button.parentElement.nextElementSibling.querySelector("svg");
    const width = svg.getBoundingClientRect().width * Number(button.dataset.zoom);
    svg.style.width = `${Math.max(width, 400)}px`;
  });
}
