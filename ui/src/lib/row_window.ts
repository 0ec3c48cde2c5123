/** The rows of a long table that are near the screen; the others are only room. */

import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Shorter tables are drawn whole, so that the browser finds any text in them. */
export const DRAWN_WHOLE = 300;
/** Rows beyond the screen that are drawn, above and below; the window moves in steps of half as many. */
const BEYOND = 40;
const ROW_PIXELS = 41;
/** Below it rows are cards of different heights. */
const NARROW_PIXELS = 640;

export interface RowWindow {
  start: number;
  end: number;
  /** Room above and below, in pixels. */
  above: number;
  below: number;
}

/** The window at a place of the scroll: `top` is where the first row begins, in pixels below the top of the screen. */
export function windowAt(count: number, top: number, screen: number): RowWindow {
  const step = BEYOND / 2;
  const first = Math.floor(Math.max(-top / ROW_PIXELS - BEYOND, 0) / step) * step;
  const start = Math.min(first, Math.max(count - step, 0));
  const end = Math.min(start + Math.ceil(screen / ROW_PIXELS) + 2 * BEYOND + step, count);
  return { start, end, above: start * ROW_PIXELS, below: (count - end) * ROW_PIXELS };
}

/** Follows the scroll; null where all rows are drawn. `mark` is an element that stands where the first row begins. */
export function useRowWindow(count: number, mark: RefObject<HTMLElement | null>): RowWindow | null {
  const [shown, setShown] = useState<RowWindow | null>(null);
  useEffect(() => {
    if (count <= DRAWN_WHOLE) {
      setShown(null);
      return;
    }
    let isAsked = false;
    const look = (): void => {
      isAsked = false;
      if (mark.current === null) return;
      const next = window.innerWidth <= NARROW_PIXELS ? null : windowAt(count, mark.current.getBoundingClientRect().top, window.innerHeight);
      setShown((known) => (known?.start === next?.start && known?.end === next?.end && known?.below === next?.below ? known : next));
    };
    const ask = (): void => {
      if (isAsked) return;
      isAsked = true;
      requestAnimationFrame(look);
    };
    look();
    window.addEventListener("scroll", ask, { passive: true });
    window.addEventListener("resize", ask);
    return () => {
      window.removeEventListener("scroll", ask);
      window.removeEventListener("resize", ask);
    };
  }, [count, mark]);
  return count > DRAWN_WHOLE ? shown : null;
}
