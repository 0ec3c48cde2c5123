/** JSON as text: payloads and results are shown exactly as they were stored, also numbers beyond 2^53. */

/** A part of a response that is kept as the text it arrived as. */
export class RawJson {
  constructor(readonly text: string) {}

  toJSON(): never {
    throw new Error("raw JSON is embedded by `writeJson`");
  }
}

/** Parses JSON. The values of fields named in `raw` are kept as text, wherever they stand. */
export function parseJson(text: string, raw: readonly string[] = []): unknown {
  return raw.length === 0 ? JSON.parse(text) : new Reader(text, new Set(raw)).read();
}

/** Writes JSON, with raw parts as they are. */
export function writeJson(value: unknown): string {
  if (value instanceof RawJson) return value.text;
  if (Array.isArray(value)) return `[${value.map((one) => writeJson(one ?? null)).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const fields = Object.entries(value).filter(([, one]) => one !== undefined);
    return `{${fields.map(([name, one]) => `${JSON.stringify(name)}:${writeJson(one)}`).join(",")}}`;
  }
  return JSON.stringify(value ?? null);
}

/** Indents JSON without changing a single token; text that is no JSON is returned as it is. */
export function prettyJson(text: string): string {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let out = "";
  let depth = 0;
  let previous = "";
  const line = (): string => `\n${"  ".repeat(depth)}`;
  for (const token of tokens(text)) {
    const isClosing = token === "}" || token === "]";
    const isBehindOpening = previous === "{" || previous === "[";
    if (isClosing) depth -= 1;
    if (isClosing ? !isBehindOpening : isBehindOpening || previous === ",") out += line();
    out += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    previous = token;
  }
  return out;
}

/** The kinds of token that a view colours. */
export type TokenKind = "key" | "string" | "number" | "word" | "mark";

/** Splits indented JSON into coloured pieces; joined they are the text again. */
export function colouredJson(text: string): { kind: TokenKind; text: string }[] {
  const pattern = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)|([\s\S])/g;
  const parts: { kind: TokenKind; text: string }[] = [];
  for (const found of text.matchAll(pattern)) {
    const [, string, colon, number, word, other] = found;
    if (string !== undefined) {
      parts.push({ kind: colon === undefined ? "string" : "key", text: string });
      if (colon !== undefined) parts.push({ kind: "mark", text: colon });
    } else if (number !== undefined) parts.push({ kind: "number", text: number });
    else if (word !== undefined) parts.push({ kind: "word", text: word });
    else {
      const last = parts[parts.length - 1];
      if (last?.kind === "mark") last.text += other ?? "";
      else parts.push({ kind: "mark", text: other ?? "" });
    }
  }
  return parts;
}

function* tokens(text: string): Generator<string> {
  const pattern = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
  for (const found of text.matchAll(pattern)) yield found[0];
}

/** A recursive-descent reader that keeps the text of some fields. */
class Reader {
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly raw: ReadonlySet<string>,
  ) {}

  read(): unknown {
    const value = this.value();
    this.blank();
    if (this.at < this.text.length) throw new SyntaxError(`unexpected text at position ${this.at}`);
    return value;
  }

  private value(): unknown {
    this.blank();
    const sign = this.text[this.at];
    if (sign === "{") return this.object();
    if (sign === "[") return this.list();
    return JSON.parse(this.scalar());
  }

  private object(): Record<string, unknown> {
    const found: Record<string, unknown> = {};
    this.take("{");
    while (!this.ends("}")) {
      this.blank();
      const name = JSON.parse(this.scalar()) as string;
      this.blank();
      this.take(":");
      this.blank();
      if (this.raw.has(name)) {
        const start = this.at;
        this.skip();
        found[name] = new RawJson(this.text.slice(start, this.at));
      } else found[name] = this.value();
      this.separator("}");
    }
    this.take("}");
    return found;
  }

  private list(): unknown[] {
    const found: unknown[] = [];
    this.take("[");
    while (!this.ends("]")) {
      found.push(this.value());
      this.separator("]");
    }
    this.take("]");
    return found;
  }

  private skip(): void {
    const sign = this.text[this.at];
    if (sign !== "{" && sign !== "[") {
      this.scalar();
      return;
    }
    let depth = 0;
    do {
      const one = this.text[this.at];
      if (one === '"') this.scalar();
      else {
        if (one === "{" || one === "[") depth += 1;
        else if (one === "}" || one === "]") depth -= 1;
        else if (one === undefined) throw new SyntaxError("unexpected end of JSON");
        this.at += 1;
      }
    } while (depth > 0);
  }

  private scalar(): string {
    const pattern = /"(?:[^"\\]|\\.)*"|[^\s{}[\],:"]+/y;
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) throw new SyntaxError(`unexpected text at position ${this.at}`);
    this.at = pattern.lastIndex;
    return found[0];
  }

  private ends(sign: string): boolean {
    this.blank();
    return this.text[this.at] === sign;
  }

  private separator(end: string): void {
    this.blank();
    if (this.text[this.at] === ",") this.at += 1;
    else if (this.text[this.at] !== end) throw new SyntaxError(`unexpected text at position ${this.at}`);
  }

  private take(sign: string): void {
    if (this.text[this.at] !== sign) throw new SyntaxError(`expected ${sign} at position ${this.at}`);
    this.at += 1;
  }

  private blank(): void {
    while (this.at < this.text.length && " \t\n\r".includes(this.text[this.at] as string)) this.at += 1;
  }
}
