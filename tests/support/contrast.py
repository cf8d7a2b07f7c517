"""A script that lists the texts of a page whose contrast is too low."""

from __future__ import annotations

#: WCAG asks for 4.5:1 for text of usual size. The last backgrounds that are not transparent count.
CONTRAST = """
(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((each) => each / 255)
    .map((each) => each <= .03928 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4)
    .reduce((sum, each, place) => sum + each * [.2126, .7152, .0722][place], 0);
  const behind = (element) => {
    const color = parse(getComputedStyle(element).backgroundColor);
    return color.length === 3 || color[3] === 1 ? color : behind(element.parentElement);
  };
  const texts = 'h1, h2, p, a, td, th, code, summary, figcaption, label, dt, dd, button, strong, .open';
  return [...document.querySelectorAll(texts)]
    .filter((each) => each.offsetParent && each.textContent.trim() && !each.classList.contains('skip'))
    .filter((each) => {
      const pair = [light(parse(getComputedStyle(each).color)), light(behind(each))];
      const [one, other] = pair.sort((a, b) => b - a);
      return (one + .05) / (other + .05) < 4.5;
    })
    .map((each) => each.textContent.slice(0, 40));
})()
"""
