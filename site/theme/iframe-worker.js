// Browsers start no worker for a page on a disk: there the search runs in a hidden frame instead.
if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.body.appendChild(Object.assign(document.createElement("iframe"), {hidden: true}));
    this.frame.answer = data => this.dispatchEvent(new MessageEvent("message", {data}));
    this.loaded = new Promise(resolve => { this.frame.onload = resolve; });
    this.frame.srcdoc = `<script>postMessage = data => frameElement.answer(data)</script><script src="${url}"></script>`;
  }
  postMessage(data) {
    this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
  }
};
