/** Server-sent events over `fetch`, which can send a token; `EventSource` cannot. */

export interface ServerEvent {
  kind: string;
  data: string;
  id: string | null;
}

/** Splits a stream of text into events. Chunks may end anywhere. */
export class EventParser {
  private rest = "";

  /** Takes a chunk and gives the events that are complete. */
  push(chunk: string): ServerEvent[] {
    this.rest += chunk;
    const blocks = this.rest.split(/\r?\n\r?\n/);
    this.rest = blocks.pop() ?? "";
    return blocks.map(readBlock).filter((event) => event !== null);
  }
}

function readBlock(block: string): ServerEvent | null {
  const event: ServerEvent = { kind: "message", data: "", id: null };
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") event.kind = value;
    else if (name === "data") data.push(value);
    else if (name === "id") event.id = value;
  }
  if (data.length === 0) return null;
  event.data = data.join("\n");
  return event;
}
