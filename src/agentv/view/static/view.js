// Keys, and parts of pages that are replaced without loading the whole page. Every page works without this script.
const main = document.getElementById("content");
const announced = document.getElementById("announced");
const keysDialog = document.getElementById("keys");
const letters = document.getElementById("letters");
const showKeys = document.getElementById("show-keys");

letters.checked = localStorage.getItem("letters") !== "off";
letters.addEventListener("change", () => localStorage.setItem("letters", letters.checked ? "on" : "off"));
showKeys.hidden = false;
showKeys.addEventListener("click", () => keysDialog.showModal());
