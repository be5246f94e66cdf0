// Places that are wider or higher than there is room for: they are reached by keyboard, and fade where there is more.

import { h } from "./dom.js";

/** An area that scrolls, with its name for screen readers. */
export function scrollArea(name, className, ...children) {
  const inner = h("div", { class: "scroll-size" }, ...children);
  const area = h("div", { class: `scroll ${className}`.trim(), role: "group", tabindex: "0", "aria-label": name }, inner);
  const tell = () => {
    area.classList.toggle("more-left", area.scrollLeft > 1);
    area.classList.toggle("more-right", area.scrollLeft + area.clientWidth < area.scrollWidth - 1);
  };
  area.addEventListener("scroll", tell, { passive: true });
  const sizes = new ResizeObserver(tell);
  sizes.observe(area);
  sizes.observe(inner); // what is in it may grow while the area stays as it is
  return { element: area, fill: (...contents) => inner.replaceChildren(...contents) };
}
