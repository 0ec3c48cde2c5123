/** What differs between two texts, line by line. */

export interface DiffLine {
  kind: "same" | "removed" | "added";
  text: string;
}

/** Texts with more lines than this are compared as a whole: the table of the comparison grows with their product. */
const MOST_LINES = 400;

/** Compares two texts by their longest common sequence of lines. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [old, now] = [before.split("\n"), after.split("\n")];
  if (old.length > MOST_LINES || now.length > MOST_LINES) {
    return [...old.map((text): DiffLine => ({ kind: "removed", text })), ...now.map((text): DiffLine => ({ kind: "added", text }))];
  }
  const lengths = Array.from({ length: old.length + 1 }, () => new Array<number>(now.length + 1).fill(0));
  const length = (row: number, column: number): number => lengths[row]?.[column] ?? 0;
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = now.length - 1; column >= 0; column -= 1) {
      (lengths[row] as number[])[column] = old[row] === now[column] ? length(row + 1, column + 1) + 1 : Math.max(length(row + 1, column), length(row, column + 1));
    }
  }
  const lines: DiffLine[] = [];
  let [row, column] = [0, 0];
  while (row < old.length || column < now.length) {
    if (row < old.length && column < now.length && old[row] === now[column]) {
      lines.push({ kind: "same", text: old[row] as string });
      row += 1;
      column += 1;
    } else if (row < old.length && (column >= now.length || length(row + 1, column) >= length(row, column + 1))) {
      lines.push({ kind: "removed", text: old[row] as string });
      row += 1;
    } else {
      lines.push({ kind: "added", text: now[column] as string });
      column += 1;
    }
  }
  return lines;
}

/** Says for each line of a Python traceback whether it belongs to a frame of a library. */
export function ofLibraries(lines: readonly string[]): boolean[] {
  let isLibrary = false;
  return lines.map((line) => {
    const file = /^\s+File "([^"]+)"/.exec(line)?.[1];
    if (file !== undefined) isLibrary = /site-packages|dist-packages|\/lib\/python\d|<frozen/.test(file);
    else if (!/^\s/.test(line)) isLibrary = false;
    return isLibrary;
  });
}
