// Shows what the browser has loaded: the style of style.css, the width of dot.svg, the protocol of this page.
addEventListener("load", () => {
    const out = document.getElementById("out");
    const protocol = performance.getEntriesByType("navigation")[0].nextHopProtocol;
    out.textContent = `color ${getComputedStyle(out).color}, image ${document.images[0].naturalWidth}, protocol ${protocol}`;
});
