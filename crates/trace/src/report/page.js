for (const picture of document.querySelectorAll(".picture")) {
  const [scroll, chart] = [picture.querySelector(".scroll"), picture.querySelector(".chart")];
  const detail = picture.querySelector(".detail");
  for (const button of picture.querySelectorAll("button[data-zoom]")) {
    button.addEventListener("click", () => {
      const [factor, before] = [Number(button.dataset.zoom), chart.getBoundingClientRect().width];
      const middle = (scroll.scrollLeft + scroll.clientWidth / 2) / before;
      const width = factor > 0 ? before * factor : 0;
      chart.style.width = `${Math.max(width, scroll.clientWidth)}px`;
      scroll.scrollLeft = middle * chart.getBoundingClientRect().width - scroll.clientWidth / 2;
    });
  }
  chart.addEventListener("click", (event) => {
    const title = event.target.querySelector("title");
    if (title) detail.textContent = title.textContent;
  });
}
