// Fetches the page's content whenever the run has changed, and says when it is over or cannot be reached.
"use strict";

const content = document.getElementById("content");
const link = document.getElementById("link");
const source = new EventSource("events");

async function refresh() {
  const answer = await fetch("body");
  if (!answer.ok) throw new Error(await answer.text());
  const shifts = [...content.querySelectorAll(".scroll")].map((table) => table.scrollLeft);
  content.innerHTML = await answer.text();
  content.querySelectorAll(".scroll").forEach((table, index) => { table.scrollLeft = shifts[index] ?? 0; });
}

function tell(text) {
  link.textContent = text;
}

source.onmessage = (event) => {
  const isOver = JSON.parse(event.data) === "over";
  if (isOver) source.close();
  refresh().then(() => tell(isOver ? "over" : "live"), (error) => tell(String(error.message)));
};
source.onerror = () => tell(source.readyState === EventSource.CLOSED ? "over" : "not connected");
