// Pages of labellers: choose a confusion to see sequences or graphs with it.

const kind = document.getElementById("kind");
const articles = [...document.querySelectorAll("article")], atFirst = articles.map(article => article.hidden);
kind?.addEventListener("change", () => {
  articles.forEach((article, i) => {
    article.hidden = kind.value === "" ? atFirst[i] : !article.dataset.kinds.split(" ").includes(kind.value);
  });
  const n = articles.filter(article => !article.hidden).length;
  document.getElementById("shown").textContent = `${n} ${kind.dataset.unit}${n === 1 ? "" : "s"} shown.`;
});
