// What runs inside the browser, so each function may use nothing from outside of itself.

// Says of each panel what its queries gave, and what of that can be seen.
export function describePanels() {
  const colourfulPixels = (canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let index = 0; index < data.length; index += 4) {
      const [red, green, blue] = data.subarray(index, index + 3);
      count += Math.max(red, green, blue) - Math.min(red, green, blue) > 40;
    }
    return count;
  };
  return Object.entries(window.panels).map(([title, its]) => {
    const place = document.querySelector(`[data-title="${CSS.escape(title)}"]`);
    const canvases = [...place.querySelectorAll('canvas')];
    return {
      title,
      ...its,
      text: place.innerText,
      colourfulPixels: canvases.map(colourfulPixels).reduce((sum, count) => sum + count, 0),
      marks: place.querySelectorAll('rect').length,
      rows: place.querySelectorAll('[role=row]').length,
    };
  });
}

// Says how readable a page is: whether it fits, its smallest letters and its weakest contrast.
export function describePage() {
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) => {
    const linear = [red, green, blue].map((one) => {
      const share = one / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const background = (element) => {
    const its = channels(getComputedStyle(element).backgroundColor);
    return its[3] === 0 && element.parentElement ? background(element.parentElement) : its;
  };
  const contrast = (element) => {
    const pair = [channels(getComputedStyle(element).color), background(element)].map(luminance);
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  };
  const letters = (element) => parseFloat(getComputedStyle(element).fontSize);
  const hasText = ({ childNodes }) =>
    [...childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  const isShown = (element) => element.checkVisibility() && hasText(element);
  const texts = [...document.body.querySelectorAll('*')].filter(isShown);
  return {
    text: document.body.innerText,
    viewportWidth: document.documentElement.clientWidth,
    contentWidth: document.documentElement.scrollWidth,
    smallestLetters: Math.min(...texts.map(letters)),
    weakestContrast: Math.min(...texts.map(contrast)),
    backgroundLuminance: luminance(background(document.body)),
  };
}
