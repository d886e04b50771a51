// A Worker for pages that are read as files: browsers start none there, and the search of the site runs in one. Its
// script runs in a hidden frame instead. mkdocs-material knows this file and the class by their names (plugin offline).
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = (data) => setTimeout(() => this.receive(new MessageEvent("message", { data })))
      inside.importScripts = async (...addresses) => {
        for (const each of addresses) await this.load(each)
      }
      this.loaded = this.load(address)
    }

    receive(message) {
      this.dispatchEvent(message)
      this.onmessage?.(message)
    }

    load(address) {
      const script = this.frame.contentDocument.createElement("script")
      script.src = address
      return new Promise((resolve, reject) => {
        script.onload = resolve
        script.onerror = reject
        this.frame.contentDocument.body.append(script)
      })
    }

    async postMessage(data) {
      await this.loaded
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
