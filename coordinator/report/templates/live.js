// Fetches the page's content whenever the run has changed, and says where the run is or why it cannot be shown.
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
  const told = JSON.parse(event.data);
  const isLast = told !== "change";
  if (isLast) source.close();
  refresh().then(() => tell(isLast ? told : "live"), (error) => tell(isLast ? told : String(error.message)));
};
source.onerror = () => {
  const isRefused = source.readyState === EventSource.CLOSED;
  tell(isRefused ? "not connected; load the page again" : "not connected");
  if (isRefused) refresh().catch((error) => tell(String(error.message)));
};
